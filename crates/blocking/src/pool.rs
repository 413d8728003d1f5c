//! A limited number of threads for one kind of call.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::error::{CallError, StuckCall};
use crate::table::{Table, group_of};

/// How many threads of a pool one file or pod directory may take.
pub const PER_GROUP: usize = 4;

/// From this number of groups on, groups without calls are dropped.
const MANY_GROUPS: usize = 64;

/// A call and its timeout.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The operation: `read`, `create directory`, …
    pub operation: &'static str,
    /// Its object: a file, a cgroup, a program.
    pub subject: &'a Path,
    /// The timeout of the caller, including the queue.
    pub limit: Duration,
}

/// The size of a pool.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// The threads while all calls return.
    pub threads: usize,
    /// Additional threads that replace hanging ones.
    pub spare: usize,
}

/// A limited number of threads for one kind of call. Clones share them.
#[derive(Debug, Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    name: &'static str,
    size: Size,
    threads: Arc<Semaphore>,
    /// Never held across an await.
    groups: Mutex<BTreeMap<PathBuf, Arc<Semaphore>>>,
    /// Never held across an await.
    table: Mutex<Table>,
    overdue: AtomicU64,
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// A pool with this name. Threads start with the calls that need them.
    pub fn new(name: &'static str, size: Size) -> Self {
        let shared = Shared {
            name,
            size,
            threads: Arc::new(Semaphore::new(size.threads)),
            groups: Mutex::default(),
            table: Mutex::default(),
            overdue: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The purpose of the pool.
    pub fn name(&self) -> &'static str {
        self.shared.name
    }

    /// The overdue calls, oldest first.
    pub fn stuck(&self, now: Instant) -> Vec<StuckCall> {
        self.shared.table().overdue(now)
    }

    /// The number of calls so far that did not return in time.
    pub fn overdue_total(&self) -> u64 {
        self.shared.overdue.load(Ordering::Relaxed)
    }

    /// Runs a call on a thread of this pool. A call that is not done at its timeout continues without its
    /// caller.
    pub async fn run<T: Send + 'static>(
        &self,
        call: Call<'_>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let now = Instant::now();
        let (deadline, group) = (now + call.limit, group_of(call.subject));
        self.refuse_at_once(group, now)?;
        let (turn, thread) = self.turn(group, deadline).await?;
        // Another call of its group may have become overdue meanwhile.
        let now = Instant::now();
        self.refuse_at_once(group, now)?;
        let number = {
            // It is overdue once its caller gives up.
            let limit = deadline.saturating_duration_since(now);
            self.shared.table().begin(Call { limit, ..call }, now)
        };
        let shared = Arc::clone(&self.shared);
        let running = RunningCall { shared, number, thread: Some(thread), _group: turn };
        let done = tokio::task::spawn_blocking(move || {
            let _running = running;
            work()
        });
        match timeout_at(deadline, done).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(ended)) => Err(CallError::Ended(ended.to_string())),
            Err(_) => {
                self.shared.overdue.fetch_add(1, Ordering::Relaxed);
                Err(CallError::Overdue(call.limit))
            }
        }
    }

    /// Refuses a call that would only wait for an overdue one.
    fn refuse_at_once(&self, group: &Path, now: Instant) -> Result<(), CallError> {
        let Size { threads, spare } = self.shared.size;
        let table = self.shared.table();
        if let Some(stuck) = table.overdue_in(group, now) {
            return Err(CallError::Stuck(stuck));
        }
        let exhausted = table.is_exhausted(threads + spare, now);
        drop(table);
        if exhausted { Err(self.busy(now)) } else { Ok(()) }
    }

    /// Waits for its turn in its group, and then for a thread.
    async fn turn(
        &self,
        group: &Path,
        deadline: Instant,
    ) -> Result<(OwnedSemaphorePermit, OwnedSemaphorePermit), CallError> {
        let turns = self.group(group);
        let Ok(Ok(turn)) = timeout_at(deadline, turns.acquire_owned()).await else {
            let now = Instant::now();
            let oldest = self.shared.table().oldest_in(group, now);
            return Err(oldest.map_or_else(|| self.busy(now), CallError::Stuck));
        };
        let mut thread = std::pin::pin!(Arc::clone(&self.shared.threads).acquire_owned());
        loop {
            let next = self.lend(Instant::now()).map_or(deadline, |next| next.min(deadline));
            match timeout_at(next, &mut thread).await {
                Ok(Ok(thread)) => return Ok((turn, thread)),
                Err(_) if Instant::now() < deadline => {}
                _ => return Err(self.busy(Instant::now())),
            }
        }
    }

    /// Starts threads that replace hanging ones. Returns when the next one may start; `None` while threads are
    /// free.
    fn lend(&self, now: Instant) -> Option<Instant> {
        let Shared { threads, size, .. } = &*self.shared;
        if threads.available_permits() > 0 {
            return None;
        }
        let (more, next) = self.shared.table().lend(size.spare, now);
        threads.add_permits(more);
        next
    }

    fn group(&self, group: &Path) -> Arc<Semaphore> {
        let mut groups = self.shared.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = groups.get(group) {
            return Arc::clone(found);
        }
        if groups.len() >= MANY_GROUPS {
            groups.retain(|_, turns| Arc::strong_count(turns) > 1);
        }
        let turns = Arc::new(Semaphore::new(PER_GROUP));
        groups.insert(group.to_owned(), Arc::clone(&turns));
        turns
    }

    fn busy(&self, now: Instant) -> CallError {
        let Size { threads, spare } = self.shared.size;
        let oldest = self.shared.table().oldest(now);
        CallError::Busy { pool: self.shared.name, threads: threads + spare, oldest }
    }
}

/// A call that occupies a thread until this is dropped.
struct RunningCall {
    shared: Arc<Shared>,
    number: u64,
    thread: Option<OwnedSemaphorePermit>,
    _group: OwnedSemaphorePermit,
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        let is_lent = self.shared.table().end(self.number);
        if let Some(thread) = self.thread.take()
            && is_lent
        {
            // Another thread has replaced it already.
            thread.forget();
        }
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
