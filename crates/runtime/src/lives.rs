//! Containers for whose ends somebody waits.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::ids::ContainerId;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// The containers, each with what is cancelled when it has ended. Never held across an await.
#[derive(Debug, Default)]
pub(crate) struct Lives(Mutex<BTreeMap<ContainerId, CancellationToken>>);

impl Lives {
    /// Follows a container, which is not started yet: an end cannot be missed.
    pub(crate) fn follow(&self, id: &ContainerId) -> Life<'_> {
        let ended = CancellationToken::new();
        self.all().insert(id.clone(), ended.clone());
        Life { lives: self, id: id.clone(), ended }
    }

    /// A container has ended.
    pub(crate) fn ended(&self, id: &ContainerId) {
        if let Some(ended) = self.all().get(id) {
            ended.cancel();
        }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<ContainerId, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A container that is followed until this is dropped.
#[derive(Debug)]
pub(crate) struct Life<'a> {
    lives: &'a Lives,
    id: ContainerId,
    ended: CancellationToken,
}

impl Life<'_> {
    /// Waits for its end, and so long after it.
    pub(crate) async fn is_over_for(&self, time: Duration) {
        self.ended.cancelled().await;
        sleep(time).await;
    }
}

impl Drop for Life<'_> {
    fn drop(&mut self) {
        self.lives.all().remove(&self.id);
    }
}
