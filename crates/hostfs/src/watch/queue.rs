//! Pending changes of one listener.

use std::sync::{Mutex, MutexGuard, PoisonError};

use model::ports::files::DirectoryChange;
use tokio::sync::Notify;

/// With more names than this, only a change of anything is reported.
const MOST_NAMES: usize = 1024;

/// Filled by the reader of the instance, read by one listener.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    pending: Option<DirectoryChange>,
    is_over: bool,
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Merges a change into the pending one.
    pub(super) fn push(&self, change: DirectoryChange) {
        let mut waiting = self.waiting();
        let both = match waiting.pending.take() {
            None => change,
            Some(before) => before.and(change),
        };
        waiting.pending = Some(match both {
            DirectoryChange::Names(names) if names.len() > MOST_NAMES => DirectoryChange::Anything,
            both => both,
        });
        drop(waiting);
        self.news.notify_one();
    }

    /// Ends the watch.
    pub(super) fn end(&self) {
        self.waiting().is_over = true;
        self.news.notify_one();
    }

    /// Waits for a change; `None` once all changes are taken and the watch has ended.
    pub(super) async fn take(&self) -> Option<DirectoryChange> {
        loop {
            {
                let mut waiting = self.waiting();
                match waiting.pending.take() {
                    None if waiting.is_over => return None,
                    None => {}
                    change => return change,
                }
            }
            self.news.notified().await;
        }
    }
}
