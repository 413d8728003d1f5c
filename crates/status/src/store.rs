//! One entry for each pod of the node: its object and its last status.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use model::ids::{PodName, PodUid};
use podspec::view;
use tokio::sync::watch;

use crate::checkpoint::Saved;
use crate::decide::{Phase, SavedPods, is_restarting_all};

/// A published status and its version.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// The status.
    pub status: Arc<PodStatus>,
    /// The number of the change that created it. Later changes have higher numbers, also after the pod
    /// was removed and added again.
    pub version: u64,
    /// Whether this is the final status: nothing of the pod is left on the node.
    pub finished: bool,
}

impl Published {
    /// The pod's start time.
    pub fn start_time(&self) -> Option<Timestamp> {
        self.status.start_time.as_ref().map(|start| start.0)
    }

    /// Whether the pod's phase is terminal.
    pub fn has_terminal_phase(&self) -> bool {
        Phase::of(&self.status).is_some_and(Phase::is_terminal)
    }

    /// Whether all containers of the pod are being restarted.
    pub fn is_restarting_all(&self) -> bool {
        is_restarting_all(&self.status)
    }
}

/// A pod of the node.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusEntry {
    /// The pod, as its source has it; with a deletion timestamp while it terminates.
    pub pod: Arc<Pod>,
    /// Its last status.
    pub status: Option<Arc<PodStatus>>,
    /// The number of the change that created the status; 0 without one.
    pub version: u64,
    /// Whether the status is final.
    pub finished: bool,
    /// When a source added the pod; `None` once its start was measured.
    pub arrived: Option<Timestamp>,
}

impl StatusEntry {
    fn new(pod: &Arc<Pod>, arrived: Option<Timestamp>) -> Self {
        Self { pod: Arc::clone(pod), status: None, version: 0, finished: false, arrived }
    }

    fn published(&self) -> Option<Published> {
        let status = Arc::clone(self.status.as_ref()?);
        Some(Published { status, version: self.version, finished: self.finished })
    }
}

#[derive(Debug, Default)]
struct State {
    entries: BTreeMap<PodUid, StatusEntry>,
    /// Statuses that an earlier agent saved, of pods that have no status yet.
    saved: Saved,
    /// Whether all pods of all sources were added.
    sources_complete: bool,
}

/// The side of the store that writes. The status manager has the only one.
#[derive(Debug)]
pub(crate) struct StatusStore {
    /// Never held across an await.
    state: Arc<Mutex<State>>,
    /// Counts changes of statuses. Sent to while `state` is locked, so that a reader that has seen a number
    /// finds the change it counts; closed when the store is dropped.
    versions: watch::Sender<u64>,
}

impl StatusStore {
    /// An empty store.
    pub(crate) fn new() -> Self {
        Self { state: Arc::default(), versions: watch::Sender::new(0) }
    }

    /// The side that reads.
    pub(crate) fn reader(&self) -> StatusReader {
        StatusReader { state: Arc::clone(&self.state), versions: self.versions.subscribe() }
    }

    /// Locks all entries.
    pub(crate) fn lock(&self) -> LockedStore<'_> {
        LockedStore { state: lock(&self.state), versions: &self.versions }
    }
}

/// The status of a pod after it was stored.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredStatus {
    /// The status.
    pub(crate) published: Published,
    /// Whether it differs from the one before.
    pub(crate) is_new: bool,
}

/// The store while it is locked.
#[derive(Debug)]
pub(crate) struct LockedStore<'a> {
    state: MutexGuard<'a, State>,
    versions: &'a watch::Sender<u64>,
}

impl LockedStore<'_> {
    /// Adds a pod that arrived `now`, or replaces its object.
    pub(crate) fn set_pod(&mut self, pod: &Arc<Pod>, now: Timestamp) {
        let new = || StatusEntry::new(pod, Some(now));
        let entry = self.state.entries.entry(view::uid(pod)).or_insert_with(new);
        entry.pod = Arc::clone(pod);
    }

    /// Stores the status of a pod, and adds the pod if there is none of its UID. An equal status is not a
    /// change and wakes no reader.
    pub(crate) fn set_status(&mut self, pod: &Arc<Pod>, status: PodStatus) -> StoredStatus {
        let (new, uid) = (|| StatusEntry::new(pod, None), view::uid(pod));
        self.state.saved.remove(&uid);
        let entry = self.state.entries.entry(uid).or_insert_with(new);
        let before = entry.status.as_ref().filter(|before| ***before == status).cloned();
        let is_new = before.is_none();
        if is_new {
            entry.version = count(self.versions);
        }
        let status = before.unwrap_or_else(|| Arc::new(status));
        entry.status = Some(Arc::clone(&status));
        let (version, finished) = (entry.version, entry.finished);
        StoredStatus { published: Published { status, version, finished }, is_new }
    }

    /// Stores the final status of a pod.
    pub(crate) fn finish(&mut self, uid: &PodUid, status: PodStatus) {
        let Some(entry) = self.state.entries.get_mut(uid) else { return };
        entry.status = Some(Arc::new(status));
        entry.finished = true;
        entry.version = count(self.versions);
    }

    /// Gives a status a new version, so that readers process it again.
    pub(crate) fn touch(&mut self, uid: &PodUid) {
        let entry = self.state.entries.get_mut(uid).filter(|entry| entry.status.is_some());
        if let Some(entry) = entry {
            entry.version = count(self.versions);
        }
    }

    /// Removes a pod. Returns whether there was one.
    pub(crate) fn remove(&mut self, uid: &PodUid) -> bool {
        self.state.saved.remove(uid);
        let removed = self.state.entries.remove(uid);
        if removed.as_ref().is_some_and(|entry| entry.status.is_some()) {
            count(self.versions);
        }
        removed.is_some()
    }

    /// The UIDs of all pods.
    pub(crate) fn uids(&self) -> impl Iterator<Item = &PodUid> {
        self.state.entries.keys()
    }

    /// The status of a pod.
    pub(crate) fn published(&self, uid: &PodUid) -> Option<Published> {
        self.state.entries.get(uid)?.published()
    }

    /// A pod.
    pub(crate) fn entry(&self, uid: &PodUid) -> Option<&StatusEntry> {
        self.state.entries.get(uid)
    }

    /// Adds statuses that an earlier agent saved.
    pub(crate) fn restore(&mut self, saved: Saved) {
        self.state.saved = saved;
    }

    /// The status of a pod that an earlier agent saved, if it has no later one.
    pub(crate) fn saved(&self, uid: &PodUid) -> Option<Arc<PodStatus>> {
        self.state.saved.get(uid).cloned()
    }

    /// When a source added the pod, unless its start was measured before.
    pub(crate) fn arrived(&mut self, uid: &PodUid) -> Option<&mut Option<Timestamp>> {
        self.state.entries.get_mut(uid).map(|entry| &mut entry.arrived)
    }

    /// All pods of all sources were added.
    pub(crate) fn set_sources_complete(&mut self) {
        self.state.sources_complete = true;
    }
}

/// Counts a change of a status; to be called with the state locked.
fn count(versions: &watch::Sender<u64>) -> u64 {
    let mut number = 0;
    versions.send_modify(|count| {
        *count += 1;
        number = *count;
    });
    number
}

/// The side of the store that reads. Cheap to clone.
#[derive(Debug, Clone)]
pub struct StatusReader {
    state: Arc<Mutex<State>>,
    versions: watch::Receiver<u64>,
}

impl StatusReader {
    /// The status of a pod.
    pub fn get(&self, uid: &PodUid) -> Option<Published> {
        lock(&self.state).entries.get(uid)?.published()
    }

    /// All pods at one moment.
    pub fn entries(&self) -> BTreeMap<PodUid, StatusEntry> {
        lock(&self.state).entries.clone()
    }

    /// Whether all pods of all sources were added.
    pub fn sources_complete(&self) -> bool {
        lock(&self.state).sources_complete
    }

    /// The names of all static pods.
    pub fn static_pods(&self) -> BTreeMap<PodUid, PodName> {
        let state = lock(&self.state);
        let static_pods = state.entries.iter().filter(|(_, entry)| view::is_static(&entry.pod));
        static_pods.map(|(uid, entry)| (uid.clone(), view::pod_name(&entry.pod))).collect()
    }

    /// The name of a static pod.
    pub fn static_pod(&self, uid: &PodUid) -> Option<PodName> {
        let state = lock(&self.state);
        let entry = state.entries.get(uid).filter(|entry| view::is_static(&entry.pod))?;
        Some(view::pod_name(&entry.pod))
    }

    /// The pods whose statuses changed after that change, each with its version.
    pub fn changed_since(&self, change: u64) -> Vec<(PodUid, u64)> {
        let state = lock(&self.state);
        let newer = state.entries.iter().filter(|(_, entry)| entry.version > change);
        newer.map(|(uid, entry)| (uid.clone(), entry.version)).collect()
    }

    /// The statuses to save. Statuses of an earlier agent stay until their pods have later ones, or are in no
    /// source.
    pub(crate) fn saved(&self, pods: SavedPods) -> Saved {
        let state = lock(&self.state);
        let listed = |uid: &PodUid| !state.sources_complete || state.entries.contains_key(uid);
        let earlier = state.saved.iter().filter(|(uid, _)| listed(uid));
        let mut saved: Saved =
            earlier.map(|(uid, status)| (uid.clone(), Arc::clone(status))).collect();
        for (uid, entry) in &state.entries {
            if let Some(status) = entry.status.as_ref().filter(|_| pods.includes(&entry.pod)) {
                saved.insert(uid.clone(), Arc::clone(status));
            }
        }
        saved
    }

    /// How many pods have a status.
    pub fn count(&self) -> usize {
        lock(&self.state).entries.values().filter(|entry| entry.status.is_some()).count()
    }

    /// Counts changes of statuses. A reader that subscribes first and then reads entries misses none.
    /// Closed when the store is dropped.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        let mut versions = self.versions.clone();
        versions.mark_unchanged();
        versions
    }
}

/// A panic while the lock was held cannot leave half a status behind: statuses are replaced whole.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
