//! Containers that are being started, so that the exit of one cancels its hook.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::ids::ContainerId;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// The containers, each with the token that is cancelled when it has exited. Never held across an await.
#[derive(Debug, Default)]
pub(crate) struct StartWatch(Mutex<BTreeMap<ContainerId, CancellationToken>>);

impl StartWatch {
    /// Watches a container that is not started yet, so that its exit cannot be missed.
    pub(crate) fn watch(&self, id: &ContainerId) -> WatchedContainer<'_> {
        let ended = CancellationToken::new();
        self.all().insert(id.clone(), ended.clone());
        WatchedContainer { watch: self, id: id.clone(), ended }
    }

    /// A container has exited.
    pub(crate) fn ended(&self, id: &ContainerId) {
        if let Some(ended) = self.all().get(id) {
            ended.cancel();
        }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<ContainerId, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A container that is watched until this is dropped.
#[derive(Debug)]
pub(crate) struct WatchedContainer<'a> {
    watch: &'a StartWatch,
    id: ContainerId,
    ended: CancellationToken,
}

impl WatchedContainer<'_> {
    /// Waits for its exit, and for a time after it.
    pub(crate) async fn has_ended_for(&self, time: Duration) {
        self.ended.cancelled().await;
        sleep(time).await;
    }
}

impl Drop for WatchedContainer<'_> {
    fn drop(&mut self) {
        self.watch.all().remove(&self.id);
    }
}
