//! The set of changed pods, for one reader.
//!
//! A keyed set instead of a queue: it is bounded by the number of pods, is never full and loses
//! nothing, so a writer never waits for the reader.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use model::ids::PodUid;
use tokio::sync::Notify;

/// Marked pods, each with the items that were added since it was last taken. Clones share the set.
#[derive(Debug, Clone)]
pub struct DirtySet<T> {
    inner: Arc<Inner<T>>,
}

#[derive(Debug)]
struct Inner<T> {
    /// Filled by writers, emptied by [`DirtySet::take`]. Never held across an await.
    marked: Mutex<BTreeMap<PodUid, Vec<T>>>,
    /// Notified on every mark; stores one permit, so a mark between two takes is not missed.
    notify: Notify,
}

impl<T> Default for DirtySet<T> {
    fn default() -> Self {
        let inner = Inner { marked: Mutex::default(), notify: Notify::new() };
        Self { inner: Arc::new(inner) }
    }
}

impl<T> DirtySet<T> {
    /// Marks a pod and adds items to it.
    pub fn mark(&self, uid: &PodUid, items: impl IntoIterator<Item = T>) {
        self.lock().entry(uid.clone()).or_default().extend(items);
        self.inner.notify.notify_one();
    }

    /// Waits until a pod is marked, then takes all marked pods.
    pub async fn take(&self) -> BTreeMap<PodUid, Vec<T>> {
        loop {
            let marked = std::mem::take(&mut *self.lock());
            if !marked.is_empty() {
                return marked;
            }
            self.inner.notify.notified().await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<PodUid, Vec<T>>> {
        self.inner.marked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use model::ids::PodUid;
    use tokio_test::{assert_pending, assert_ready, task};

    use super::DirtySet;

    #[test]
    fn marks_are_merged_by_pod_and_taken_once() {
        let dirty = DirtySet::default();
        let (a, b) = (PodUid::from("a"), PodUid::from("b"));
        dirty.mark(&a, [1]);
        dirty.mark(&a, [2]);
        dirty.mark(&b, [3]);
        let taken = assert_ready!(task::spawn(dirty.take()).poll());
        assert_eq!(taken, [(a.clone(), vec![1, 2]), (b, vec![3])].into());
        let mut wait = task::spawn(dirty.take());
        assert_pending!(wait.poll());
        dirty.mark(&a, [4]);
        assert!(wait.is_woken());
        assert_eq!(assert_ready!(wait.poll()), [(a, vec![4])].into());
    }

    #[test]
    fn pod_can_be_marked_without_items() {
        let dirty: DirtySet<u8> = DirtySet::default();
        dirty.mark(&"a".into(), []);
        assert_eq!(assert_ready!(task::spawn(dirty.take()).poll()).len(), 1);
    }
}
