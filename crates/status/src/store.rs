//! The last status of every pod, for who shows or sends it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::PodStatus;
use model::ids::PodUid;
use tokio::sync::watch;

/// A status and its version.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// The status.
    pub status: Arc<PodStatus>,
    /// The number of the change that made it. Later changes have higher numbers, also after the pod
    /// was removed and came back.
    pub version: u64,
    /// Whether nothing of the pod is left on the node: it gets no other status.
    pub finished: bool,
}

type Entries = BTreeMap<PodUid, Published>;

/// The last status of every pod: the side that writes. There is one of it.
#[derive(Debug)]
pub struct StatusStore {
    /// Written here alone, read by [`StatusReader`]s. Never held across an await.
    entries: Arc<Mutex<Entries>>,
    /// Counts changes. Sent to while `entries` is locked, so that a reader who has seen a number
    /// finds what it counts; closed when the store is dropped.
    changes: watch::Sender<u64>,
}

impl Default for StatusStore {
    fn default() -> Self {
        Self::new()
    }
}

impl StatusStore {
    /// An empty store.
    pub fn new() -> Self {
        Self { entries: Arc::default(), changes: watch::Sender::new(0) }
    }

    /// A handle for who only reads.
    pub fn reader(&self) -> StatusReader {
        StatusReader { entries: Arc::clone(&self.entries), changes: self.changes.subscribe() }
    }

    /// Keeps the status of a pod. Whether it differs from the one before: an equal status is no
    /// change and wakes nobody.
    pub fn set(&self, uid: &PodUid, status: PodStatus) -> bool {
        let mut entries = lock(&self.entries);
        let before = entries.get(uid);
        if before.is_some_and(|before| *before.status == status) {
            return false;
        }
        let finished = before.is_some_and(|before| before.finished);
        let version = self.count_change();
        entries.insert(uid.clone(), Published { status: Arc::new(status), version, finished });
        true
    }

    /// Keeps the last status of a pod: nothing of it is left.
    pub fn finish(&self, uid: &PodUid, status: PodStatus) {
        let mut entries = lock(&self.entries);
        let version = self.count_change();
        let last = Published { status: Arc::new(status), version, finished: true };
        entries.insert(uid.clone(), last);
    }

    /// Makes readers look at a pod again: something besides its status changed.
    pub fn touch(&self, uid: &PodUid) {
        if let Some(published) = lock(&self.entries).get_mut(uid) {
            published.version = self.count_change();
        }
    }

    /// Forgets a pod. Whether it was known.
    pub fn remove(&self, uid: &PodUid) -> bool {
        let mut entries = lock(&self.entries);
        let known = entries.remove(uid).is_some();
        if known {
            self.count_change();
        }
        known
    }

    /// The status of a pod.
    pub fn get(&self, uid: &PodUid) -> Option<Published> {
        lock(&self.entries).get(uid).cloned()
    }

    /// The number of the change that is being made; to be called with `entries` locked.
    fn count_change(&self) -> u64 {
        let mut number = 0;
        self.changes.send_modify(|count| {
            *count += 1;
            number = *count;
        });
        number
    }
}

/// The last status of every pod: the side that reads. Cheap to clone.
#[derive(Debug, Clone)]
pub struct StatusReader {
    entries: Arc<Mutex<Entries>>,
    changes: watch::Receiver<u64>,
}

impl StatusReader {
    /// The status of a pod.
    pub fn get(&self, uid: &PodUid) -> Option<Published> {
        lock(&self.entries).get(uid).cloned()
    }

    /// The statuses of all pods at one moment.
    pub fn snapshot(&self) -> BTreeMap<PodUid, Published> {
        lock(&self.entries).clone()
    }

    /// The pods whose statuses changed after that change, each with the number of its own last one.
    pub fn changed_since(&self, change: u64) -> Vec<(PodUid, u64)> {
        let entries = lock(&self.entries);
        let newer = entries.iter().filter(|(_, published)| published.version > change);
        newer.map(|(uid, published)| (uid.clone(), published.version)).collect()
    }

    /// How many pods have a status.
    pub fn count(&self) -> usize {
        lock(&self.entries).len()
    }

    /// The number of changes so far, and to wait for the next. Who subscribes first and then takes
    /// snapshots misses nothing. Ends when the store is dropped.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        let mut changes = self.changes.clone();
        changes.mark_unchanged();
        changes
    }
}

/// A panic while the lock was held cannot leave half a status behind: entries are replaced whole.
fn lock(entries: &Mutex<Entries>) -> MutexGuard<'_, Entries> {
    entries.lock().unwrap_or_else(PoisonError::into_inner)
}
