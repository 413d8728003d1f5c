//! A lock per pod.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use model::ids::PodUid;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

/// The locks of pods. An unused lock is dropped.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<BTreeMap<PodUid, Arc<Turn<()>>>>);

impl Turns {
    /// Waits for the turn of a pod; it ends when the returned guard is dropped.
    pub(crate) async fn take(&self, uid: &PodUid) -> OwnedMutexGuard<()> {
        let turn = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(all.entry(uid.clone()).or_default())
        };
        turn.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use tokio_test::{assert_pending, assert_ready, task};

    use super::*;

    #[test]
    fn turns_are_exclusive_per_pod() {
        let turns = Turns::default();
        let (a, b) = (PodUid::from("a"), PodUid::from("b"));
        let first = assert_ready!(task::spawn(turns.take(&a)).poll());
        let mut second = task::spawn(turns.take(&a));
        assert_pending!(second.poll());
        drop(assert_ready!(task::spawn(turns.take(&b)).poll()));
        drop(first);
        assert!(second.is_woken());
        drop(assert_ready!(second.poll()));
        drop(second);
        drop(assert_ready!(task::spawn(turns.take(&b)).poll()));
        let kept = turns.0.lock().unwrap().len();
        assert_eq!(kept, 1, "only the last one is remembered");
    }
}
