//! Threads that share the work on a tree.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};

use model::volume::Ownership;
use tracing::warn;

use super::walk;

/// The number of threads for a large tree.
const THREADS: usize = 4;

/// From this number of files on, a tree is large.
const LARGE: u64 = 500;

/// Progress is reported after this number of files.
const REPORTED: u64 = 1000;

/// How many errors of single files are logged.
const MOST_LOGGED: u64 = 10;

/// Changes everything below the root of a volume.
pub(super) fn walk(volume: OwnedFd, ownership: Ownership, progress: &(dyn Fn(u64) + Send + Sync)) {
    let queue = Queue { directories: [volume].into(), busy: 0 };
    let crew = OwnershipJob {
        ownership,
        progress,
        queue: Mutex::new(queue),
        changed: Condvar::new(),
        is_large: AtomicBool::new(false),
        files: AtomicU64::new(0),
        failures: AtomicU64::new(0),
    };
    thread::scope(|scope| crew.work(scope));
    let failures = crew.failures.load(Ordering::Relaxed);
    if failures > MOST_LOGGED {
        warn!(failures, "Cannot set the group of further files of a volume");
    }
}

#[derive(Debug)]
struct Queue {
    /// Directories whose content has to be changed.
    directories: VecDeque<OwnedFd>,
    /// How many threads may still add directories.
    busy: usize,
}

/// The state shared by the threads.
pub(super) struct OwnershipJob<'a> {
    pub(super) ownership: Ownership,
    progress: &'a (dyn Fn(u64) + Send + Sync),
    queue: Mutex<Queue>,
    changed: Condvar,
    is_large: AtomicBool,
    files: AtomicU64,
    failures: AtomicU64,
}

impl OwnershipJob<'_> {
    fn work<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        while let Some(directory) = self.next() {
            let _busy = Busy(self);
            walk::below(directory, self, &|| self.count(scope));
        }
    }

    /// The next directory; `None` once all are done.
    fn next(&self) -> Option<OwnedFd> {
        let mut queue = self.queue();
        loop {
            if let Some(directory) = queue.directories.pop_front() {
                queue.busy += 1;
                return Some(directory);
            }
            if queue.busy == 0 {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Offers a directory to another thread, if one is idle.
    pub(super) fn offer(&self, directory: OwnedFd) -> Result<(), OwnedFd> {
        if !self.is_large.load(Ordering::Relaxed) {
            return Err(directory);
        }
        let mut queue = self.queue();
        if queue.directories.len() >= THREADS {
            return Err(directory);
        }
        queue.directories.push_back(directory);
        self.changed.notify_one();
        Ok(())
    }

    /// Counts a changed file.
    fn count<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let files = self.files.fetch_add(1, Ordering::Relaxed) + 1;
        if files == LARGE {
            self.is_large.store(true, Ordering::Relaxed);
            for _ in 1..THREADS {
                scope.spawn(|| self.work(scope));
            }
        }
        if files.is_multiple_of(REPORTED) {
            (self.progress)(files);
        }
    }

    /// Records that a file could not be changed.
    pub(super) fn failed(&self, name: &Path, error: &io::Error) {
        if self.failures.fetch_add(1, Ordering::Relaxed) < MOST_LOGGED {
            let name = name.display();
            warn!(%name, %error, "Cannot set the group of a file of a volume");
        }
    }
}

/// A thread that may add directories; released also after a panic.
struct Busy<'a, 'b>(&'a OwnershipJob<'b>);

impl Drop for Busy<'_, '_> {
    fn drop(&mut self) {
        self.0.queue().busy -= 1;
        self.0.changed.notify_all();
    }
}
