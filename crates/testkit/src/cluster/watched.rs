//! Observable state.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// State with notifications of its changes. Clones share it.
#[derive(Debug)]
pub(super) struct Watched<T> {
    /// Never held across an await.
    state: Arc<Mutex<T>>,
    /// The number of changes; observers wait for the next.
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
    /// The state, to be read or changed without a notification.
    pub(super) fn state(&self) -> MutexGuard<'_, T> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and notifies observers.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let answer = change(&mut self.state());
        self.changed.send_modify(|count| *count += 1);
        answer
    }

    /// Notifications of changes from now on.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}
