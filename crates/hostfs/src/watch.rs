//! Watches of directories. A machine has few inotify instances, so all watches of the agent share
//! one.

mod queue;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use blocking::Pool;
use futures_util::StreamExt as _;
use inotify::{EventMask, EventOwned, EventStream, Inotify, WatchDescriptor, WatchMask};
use model::ports::files::{DirectoryChange, DirectoryWatch, FileError};
use tokio::task::JoinSet;

use queue::Queue;

use crate::calls;

/// Space for some events; the rest is read later.
const BUFFER: usize = 4096;

/// All watches of the agent.
#[derive(Debug)]
pub(crate) struct Watches {
    /// Created with the first watch, and again after a failure.
    instance: Mutex<Option<Instance>>,
    pool: Pool,
}

impl Default for Watches {
    fn default() -> Self {
        Self { instance: Mutex::default(), pool: calls::pool() }
    }
}

/// An inotify instance and the task that reads it. The task ends when this is dropped.
#[derive(Debug)]
struct Instance {
    shared: Arc<Shared>,
    #[cfg_attr(not(test), expect(dead_code, reason = "held for its drop"))]
    reader: JoinSet<()>,
}

/// The state shared by the reader and the watches.
#[derive(Debug)]
struct Shared {
    watches: inotify::Watches,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// The listeners of each directory. A directory without listeners stays here until the kernel reports the end
    /// of its watch.
    listeners: BTreeMap<WatchDescriptor, Vec<Weak<Queue>>>,
    /// Watches that ended before their first listener was registered.
    ended: BTreeSet<WatchDescriptor>,
    /// The instance is no longer read.
    is_closed: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watches {
    /// The threads for file operations.
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Watches a directory for completed files, not for single writes.
    pub(crate) async fn watch(&self, directory: &Path) -> Result<Watch, FileError> {
        let mask = WatchMask::ATTRIB
            | WatchMask::CLOSE_WRITE
            | WatchMask::CREATE
            | WatchMask::DELETE
            | WatchMask::DELETE_SELF
            | WatchMask::MOVE
            | WatchMask::MOVE_SELF;
        self.listen(directory, mask).await
    }

    /// Watches a directory for writes and new files.
    pub(crate) async fn watch_writing(&self, directory: &Path) -> Result<Watch, FileError> {
        let mask = WatchMask::MODIFY | WatchMask::CREATE | WatchMask::MOVED_TO;
        self.listen(directory, mask | WatchMask::DELETE_SELF | WatchMask::MOVE_SELF).await
    }

    /// Watches a file for one write. The kernel removes the watch after it.
    pub(crate) async fn watch_write(&self, file: &Path) -> Result<Watch, FileError> {
        let mask = WatchMask::MODIFY | WatchMask::ONESHOT | WatchMask::DONT_FOLLOW;
        self.add(file, mask).await
    }

    async fn listen(&self, directory: &Path, mask: WatchMask) -> Result<Watch, FileError> {
        // A directory has one watch per instance for all listeners: each adds its events.
        self.add(directory, mask | WatchMask::ONLYDIR | WatchMask::MASK_ADD).await
    }

    async fn add(&self, path: &Path, mask: WatchMask) -> Result<Watch, FileError> {
        let failed = |source| FileError { operation: "watch", path: path.to_owned(), source };
        let shared = self.shared().map_err(failed)?;
        let mut watches = shared.watches.clone();
        let add = move |path: &Path| watches.add(path, mask);
        let descriptor = calls::call(&self.pool, "watch", path, add).await?;
        let queue = Arc::new(Queue::default());
        lock(&shared.table).listen(descriptor.clone(), &queue);
        Ok(Watch { path: path.to_owned(), queue, descriptor, shared })
    }

    /// The current instance, or a new one.
    fn shared(&self) -> io::Result<Arc<Shared>> {
        let mut instance = lock(&self.instance);
        if let Some(instance) = &*instance
            && !lock(&instance.shared.table).is_closed
        {
            return Ok(Arc::clone(&instance.shared));
        }
        let events = Inotify::init()?.into_event_stream(vec![0; BUFFER])?;
        let shared = Arc::new(Shared { watches: events.watches(), table: Mutex::default() });
        let mut reader = JoinSet::new();
        reader.spawn(read(events, Closing(Arc::clone(&shared))));
        *instance = Some(Instance { shared: Arc::clone(&shared), reader });
        Ok(shared)
    }
}

/// Forwards kernel events until the instance ends.
async fn read(mut events: EventStream<Vec<u8>>, closing: Closing) {
    while let Some(Ok(event)) = events.next().await {
        let shared = &closing.0;
        let unwanted = lock(&shared.table).forward(event);
        if let Some(descriptor) = unwanted {
            shared.watches.clone().remove(descriptor).ok();
        }
    }
}

/// Ends all watches when the reader ends for any reason.
struct Closing(Arc<Shared>);

impl Drop for Closing {
    fn drop(&mut self) {
        let mut table = lock(&self.0.table);
        table.is_closed = true;
        for queue in std::mem::take(&mut table.listeners).into_values().flatten() {
            queue.upgrade().iter().for_each(|queue| queue.end());
        }
    }
}

impl Table {
    fn listen(&mut self, descriptor: WatchDescriptor, queue: &Arc<Queue>) {
        if self.is_closed || self.ended.remove(&descriptor) {
            queue.end();
            return;
        }
        self.listeners.entry(descriptor).or_default().push(Arc::downgrade(queue));
    }

    /// Forwards an event. Returns a watch to be removed if its directory was moved.
    fn forward(&mut self, event: EventOwned) -> Option<WatchDescriptor> {
        let EventOwned { wd, mask, name, .. } = event;
        if mask.contains(EventMask::Q_OVERFLOW) {
            let queues = self.listeners.values().flatten();
            queues
                .filter_map(Weak::upgrade)
                .for_each(|queue| queue.push(DirectoryChange::Anything));
            return None;
        }
        if mask.contains(EventMask::IGNORED) {
            match self.listeners.remove(&wd) {
                Some(queues) => {
                    queues.iter().filter_map(Weak::upgrade).for_each(|queue| queue.end());
                }
                None => {
                    self.ended.insert(wd);
                }
            }
            return None;
        }
        let change =
            name.map_or(DirectoryChange::Anything, |name| DirectoryChange::Names([name].into()));
        let queues = self.listeners.get(&wd)?;
        queues.iter().filter_map(Weak::upgrade).for_each(|queue| queue.push(change.clone()));
        mask.contains(EventMask::MOVE_SELF).then_some(wd)
    }

    /// Returns whether no listener is left.
    fn leave(&mut self, descriptor: &WatchDescriptor, queue: &Arc<Queue>) -> bool {
        let Some(queues) = self.listeners.get_mut(descriptor) else { return false };
        queues.retain(|other| other.strong_count() > 0 && other.as_ptr() != Arc::as_ptr(queue));
        queues.is_empty()
    }
}

/// A listener of a directory or file.
#[derive(Debug)]
pub(crate) struct Watch {
    #[expect(dead_code, reason = "shown by Debug")]
    path: PathBuf,
    queue: Arc<Queue>,
    descriptor: WatchDescriptor,
    shared: Arc<Shared>,
}

impl Watch {
    /// Waits for an event, or the end of the watch.
    pub(crate) async fn first_event(self) {
        // The end counts as an event: the file may be gone.
        drop(self.queue.take().await);
    }
}

#[async_trait]
impl DirectoryWatch for Watch {
    async fn next_change(&mut self) -> Option<DirectoryChange> {
        self.queue.take().await
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut table = lock(&self.shared.table);
        if table.leave(&self.descriptor, &self.queue) {
            // Under the lock: a concurrent watch of the same directory gets the same descriptor, and receives
            // the end.
            self.shared.watches.clone().remove(self.descriptor.clone()).ok();
        }
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
