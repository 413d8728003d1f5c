//! The pods of the node for garbage collection, from the intake and the workers.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gc::decide::PodStates;
use model::ids::PodUid;
use model::pod_state::{PodState, WorkerState};
use pods::WorkerStates;
use pods::decide::intake::IndexEntry;

/// Which pods there are. The sync loop writes it before it executes the commands of the intake: garbage collection
/// sees a worker before it exists.
#[derive(Debug)]
pub(crate) struct PodIndex {
    workers: WorkerStates,
    /// Never held across an await.
    intake: Mutex<IntakeIndex>,
}

#[derive(Debug, Default)]
struct IntakeIndex {
    pods: BTreeMap<PodUid, IndexEntry>,
    /// Whether every source has listed its pods.
    sources_ready: bool,
    /// Whether every running and every desired pod has had a worker since: a pod without one is gone.
    complete: bool,
}

impl IntakeIndex {
    fn entry(&self, uid: &PodUid) -> IndexEntry {
        self.pods.get(uid).copied().unwrap_or_default()
    }
}

impl PodIndex {
    pub(crate) fn new(workers: WorkerStates) -> Self {
        Self { workers, intake: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, IntakeIndex> {
        self.intake.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the entry of a pod.
    pub(crate) fn update(&self, uid: &PodUid, entry: Option<IndexEntry>) {
        let mut intake = self.lock();
        match entry {
            Some(entry) => intake.pods.insert(uid.clone(), entry),
            None => intake.pods.remove(uid),
        };
    }

    /// Replaces all entries.
    pub(crate) fn replace(&self, pods: BTreeMap<PodUid, IndexEntry>) {
        self.lock().pods = pods;
    }

    /// Stores whether every source has listed its pods. Returns whether that is new.
    pub(crate) fn set_sources_ready(&self, is_ready: bool) -> bool {
        std::mem::replace(&mut self.lock().sources_ready, is_ready) != is_ready
    }

    /// Every running and every desired pod has a worker. Returns whether that is new.
    pub(crate) fn set_complete(&self) -> bool {
        !std::mem::replace(&mut self.lock().complete, true)
    }

    /// The state of a pod that a source lists; `None` for a pod that is only being terminated.
    pub(crate) fn listed_state(&self, uid: &PodUid) -> Option<PodState> {
        let is_listed = self.lock().entry(uid).listed;
        is_listed.then(|| self.state(uid))
    }

    /// The rule that says that a pod has no running containers and never will: it is gone, or was rejected. Unknown
    /// before every running pod has a worker.
    pub(crate) fn runs_nothing(&self, uid: &PodUid) -> Option<&'static str> {
        let intake = self.lock();
        let entry = intake.entry(uid);
        let has_worker = entry.worker || self.workers.get(uid).is_some();
        if !intake.sources_ready || !intake.complete || has_worker {
            None
        } else if entry.rejected {
            Some("pod-was-refused")
        } else {
            (!entry.listed).then_some("pod-is-gone")
        }
    }
}

impl PodStates for PodIndex {
    fn sources_ready(&self) -> bool {
        self.lock().sources_ready
    }

    fn state(&self, uid: &PodUid) -> PodState {
        // Both are read under one lock, so that a new pod is not missed between the two.
        let intake = self.lock();
        let entry = intake.entry(uid);
        match self.workers.get(uid) {
            Some(worker) => PodState::Known(worker),
            None if entry.listed => PodState::Desired,
            // An orphan that is about to be terminated.
            None if entry.worker => PodState::Known(WorkerState::default()),
            None if intake.complete => PodState::Gone,
            None => PodState::SourcesNotReady,
        }
    }

    /// The active deadline counts from the first sandbox.
    fn needs_first_sandbox(&self, uid: &PodUid) -> bool {
        self.lock().entry(uid).has_deadline
    }

    fn any_terminating(&self) -> bool {
        self.workers.any_terminating()
    }
}

#[cfg(test)]
impl PodIndex {
    /// An index of listed pods without workers.
    pub(crate) fn listing(uids: &[&str]) -> Self {
        let index = Self::new(WorkerStates::default());
        for uid in uids {
            index.update(&(*uid).into(), Some(LISTED));
        }
        index
    }
}

#[cfg(test)]
const LISTED: IndexEntry =
    IndexEntry { listed: true, has_deadline: false, rejected: false, worker: false };

#[cfg(test)]
mod tests {
    use super::*;

    const WORKER: IndexEntry = IndexEntry { listed: false, worker: true, ..LISTED };

    // behaviour: GC-4, GC-5
    #[test]
    fn unlisted_pod_is_gone_once_the_index_is_complete() {
        let index = PodIndex::new(WorkerStates::default());
        let (a, b) = (PodUid::from("a"), PodUid::from("b"));
        let states = |index: &PodIndex| [&a, &b].map(|uid| index.state(uid));
        assert_eq!(states(&index), [PodState::SourcesNotReady; 2]);
        index.update(&a, Some(LISTED));
        assert!(index.set_sources_ready(true) && !index.set_sources_ready(true));
        assert_eq!(states(&index), [PodState::Desired, PodState::SourcesNotReady]);
        assert!(index.set_complete() && !index.set_complete());
        assert_eq!(states(&index), [PodState::Desired, PodState::Gone]);
        assert!(index.sources_ready() && !index.needs_first_sandbox(&a));
        index.update(&a, Some(IndexEntry { has_deadline: true, ..LISTED }));
        assert!(index.needs_first_sandbox(&a));
    }

    // behaviour: CGR-40
    #[test]
    fn rejected_pod_runs_nothing_unless_it_has_a_worker() {
        let uid = PodUid::from("a");
        let index = PodIndex::listing(&["a"]);
        let rejected = IndexEntry { rejected: true, ..LISTED };
        index.set_sources_ready(true);
        index.update(&uid, Some(rejected));
        assert_eq!(index.runs_nothing(&uid), None, "its earlier version may run");
        index.set_complete();
        assert_eq!(index.runs_nothing(&uid), Some("pod-was-refused"));
        assert_eq!(index.state(&uid), PodState::Desired, "its logs stay");
        index.update(&uid, Some(IndexEntry { worker: true, ..rejected }));
        assert_eq!(index.runs_nothing(&uid), None, "it is being terminated");
        index.update(&uid, Some(LISTED));
        assert_eq!(index.runs_nothing(&uid), None, "it is desired");
        index.replace(BTreeMap::new());
        assert_eq!(index.runs_nothing(&uid), Some("pod-is-gone"));
    }

    // behaviour: PRS-2
    #[test]
    fn pod_with_only_a_worker_is_not_listed() {
        let (a, b) = (PodUid::from("a"), PodUid::from("b"));
        let index = PodIndex::listing(&["a"]);
        index.update(&b, Some(WORKER));
        assert_eq!(index.listed_state(&a), Some(PodState::Desired));
        assert_eq!(index.state(&b), PodState::Known(WorkerState::default()));
        assert_eq!(index.listed_state(&b), None);
    }

    #[test]
    fn orphan_that_is_about_to_be_terminated_is_not_gone() {
        let (index, uid) = (PodIndex::new(WorkerStates::default()), PodUid::from("a"));
        index.set_sources_ready(true);
        index.set_complete();
        index.update(&uid, Some(WORKER));
        assert_eq!(index.state(&uid), PodState::Known(WorkerState::default()));
        assert_eq!(index.state(&uid).content_removable(), None);
        index.update(&uid, None);
        assert_eq!(index.state(&uid), PodState::Gone);
    }
}
