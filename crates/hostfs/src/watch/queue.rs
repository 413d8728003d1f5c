//! What one listener has not heard yet.

use std::sync::{Mutex, MutexGuard, PoisonError};

use model::ports::files::Heard;
use tokio::sync::Notify;

/// More names than this are not remembered one by one.
const MOST_NAMES: usize = 1024;

/// Filled by the reader of the instance, emptied by one listener.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    heard: Option<Heard>,
    is_over: bool,
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what was heard to what waits.
    pub(super) fn push(&self, heard: Heard) {
        let mut waiting = self.waiting();
        let both = match waiting.heard.take() {
            None => heard,
            Some(before) => before.and(heard),
        };
        waiting.heard = Some(match both {
            Heard::Names(names) if names.len() > MOST_NAMES => Heard::Anything,
            both => both,
        });
        drop(waiting);
        self.news.notify_one();
    }

    /// Nothing more will come.
    pub(super) fn end(&self) {
        self.waiting().is_over = true;
        self.news.notify_one();
    }

    /// Waits for what was heard; `None` once all was taken and nothing more will come.
    pub(super) async fn take(&self) -> Option<Heard> {
        loop {
            {
                let mut waiting = self.waiting();
                match waiting.heard.take() {
                    None if waiting.is_over => return None,
                    None => {}
                    heard => return heard,
                }
            }
            self.news.notified().await;
        }
    }
}
