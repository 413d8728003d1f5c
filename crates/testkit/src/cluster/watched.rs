//! State that somebody follows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// State, and news of its changes. Clones are the same one.
#[derive(Debug)]
pub(super) struct Watched<T> {
    /// Never held across an await.
    state: Arc<Mutex<T>>,
    /// Counts changes of anything; for those who follow.
    changed: Arc<watch::Sender<u64>>,
}

impl<T> Clone for Watched<T> {
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state), changed: Arc::clone(&self.changed) }
    }
}

impl<T: Default> Default for Watched<T> {
    fn default() -> Self {
        Self { state: Arc::default(), changed: Arc::new(watch::Sender::new(0)) }
    }
}

impl<T> Watched<T> {
    /// A look that nobody is told of.
    pub(super) fn state(&self) -> MutexGuard<'_, T> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes it, and tells those who follow that there is something to see.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let answer = change(&mut self.state());
        self.changed.send_modify(|count| *count += 1);
        answer
    }

    /// News of changes from now on.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}
