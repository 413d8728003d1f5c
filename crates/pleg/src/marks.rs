//! Pods with news, for one reader.
//!
//! A keyed set instead of a queue: it is bounded by the number of pods, is never full and loses
//! nothing, so whoever marks never waits for whoever reads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use model::ids::PodUid;
use tokio::sync::Notify;

/// Pods that are marked, each with what was said of it since it was last taken. Clones share the
/// marks.
#[derive(Debug, Clone)]
pub struct Marks<T> {
    inner: Arc<Inner<T>>,
}

#[derive(Debug)]
struct Inner<T> {
    /// Added to by whoever marks, emptied by [`Marks::take`]. Never held across an await.
    marked: Mutex<BTreeMap<PodUid, Vec<T>>>,
    /// Rung on every mark; remembers one ring, so a mark between two takes is not missed.
    bell: Notify,
}

impl<T> Default for Marks<T> {
    fn default() -> Self {
        let inner = Inner { marked: Mutex::default(), bell: Notify::new() };
        Self { inner: Arc::new(inner) }
    }
}

impl<T> Marks<T> {
    /// Adds news of a pod.
    pub fn mark(&self, uid: &PodUid, news: impl IntoIterator<Item = T>) {
        self.lock().entry(uid.clone()).or_default().extend(news);
        self.inner.bell.notify_one();
    }

    /// Waits until a pod is marked, then takes all marks.
    pub async fn take(&self) -> BTreeMap<PodUid, Vec<T>> {
        loop {
            let marked = std::mem::take(&mut *self.lock());
            if !marked.is_empty() {
                return marked;
            }
            self.inner.bell.notified().await;
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

    use super::Marks;

    #[test]
    fn marks_are_merged_by_pod_and_taken_once() {
        let marks = Marks::default();
        let (a, b) = (PodUid::from("a"), PodUid::from("b"));
        marks.mark(&a, [1]);
        marks.mark(&a, [2]);
        marks.mark(&b, [3]);
        let taken = assert_ready!(task::spawn(marks.take()).poll());
        assert_eq!(taken, [(a.clone(), vec![1, 2]), (b, vec![3])].into());
        let mut wait = task::spawn(marks.take());
        assert_pending!(wait.poll());
        marks.mark(&a, [4]);
        assert!(wait.is_woken());
        assert_eq!(assert_ready!(wait.poll()), [(a, vec![4])].into());
    }

    #[test]
    fn pod_can_be_marked_without_items() {
        let marks: Marks<u8> = Marks::default();
        marks.mark(&"a".into(), []);
        assert_eq!(assert_ready!(task::spawn(marks.take()).poll()).len(), 1);
    }
}
