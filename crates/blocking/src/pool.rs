//! A bounded number of threads for one kind of call.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::error::{CallError, StuckCall};
use crate::table::{Table, group_of};

/// How many threads of a pool the calls for one file or pod directory take.
pub const PER_GROUP: usize = 4;

/// From how many groups on those are forgotten that have no call.
const MANY_GROUPS: usize = 64;

/// What to call, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// What it does: `read`, `create directory`, …
    pub operation: &'static str,
    /// To what: a file, a cgroup, a program.
    pub subject: &'a Path,
    /// How long the caller waits, in the queue and for the result.
    pub limit: Duration,
}

/// How many threads a pool takes.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// While all calls return.
    pub threads: usize,
    /// How many more start in the place of calls that do not return.
    pub spare: usize,
}

/// A bounded number of threads for one kind of call. Clones share them.
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
    /// A pool by that name. Threads start with the calls that need them.
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

    /// What it is for.
    pub fn name(&self) -> &'static str {
        self.shared.name
    }

    /// The calls that are overdue now, the oldest first.
    pub fn stuck(&self, now: Instant) -> Vec<StuckCall> {
        self.shared.table().overdue(now)
    }

    /// How many calls did not return in time so far.
    pub fn overdue_total(&self) -> u64 {
        self.shared.overdue.load(Ordering::Relaxed)
    }

    /// Runs a call on a thread of this pool. A call that is not done at its limit goes on without its caller.
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
            // Overdue from when its caller gives up.
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

    /// Refuses what would only wait behind a call that is overdue.
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

    /// Waits for a turn among the calls of its group, and then for a thread.
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

    /// Starts further threads in the place of those that have not returned for a while. When the next one may start;
    /// nothing while threads are free.
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

/// A call that holds a thread until this is dropped.
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
            // Another thread has its place already.
            thread.forget();
        }
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
