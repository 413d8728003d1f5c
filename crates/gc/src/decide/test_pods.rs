//! Pod states for tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::ids::PodUid;
use model::pod_state::{PodState, WorkerState};

use super::PodStates;

/// Pods by uid; all others are gone.
#[derive(Debug, Clone)]
pub(crate) struct Pods {
    states: BTreeMap<PodUid, PodState>,
    others: PodState,
    sources_ready: bool,
    first_sandboxes: bool,
    ending: Arc<AtomicBool>,
}

impl Pods {
    pub(crate) fn ready() -> Self {
        Self {
            states: BTreeMap::new(),
            others: PodState::Gone,
            sources_ready: true,
            first_sandboxes: false,
            ending: Arc::default(),
        }
    }

    /// Not all sources are ready, so the state of an unlisted pod is unknown.
    pub(crate) fn sources_not_ready(mut self) -> Self {
        (self.others, self.sources_ready) = (PodState::SourcesNotReady, false);
        self
    }

    /// Whether any of them is terminating.
    pub(crate) fn ending(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.ending)
    }

    /// All of them have deadlines from their first sandbox.
    pub(crate) fn with_deadlines(mut self) -> Self {
        self.first_sandboxes = true;
        self
    }

    fn with(mut self, uids: &[&str], state: WorkerState) -> Self {
        self.states.extend(uids.iter().map(|uid| (PodUid::from(*uid), PodState::Known(state))));
        self
    }

    pub(crate) fn active(self, uids: &[&str]) -> Self {
        self.with(uids, WorkerState::default())
    }

    pub(crate) fn terminated(self, uids: &[&str]) -> Self {
        self.with(uids, WorkerState { terminated: true, ..<_>::default() })
    }

    pub(crate) fn deleted(self, uids: &[&str]) -> Self {
        self.with(uids, WorkerState { terminated: true, deleted: true, ..<_>::default() })
    }

    pub(crate) fn evicted(self, uids: &[&str]) -> Self {
        self.with(uids, WorkerState { evicted: true, terminated: true, ..<_>::default() })
    }

    pub(crate) fn set(mut self, uid: &str, state: PodState) -> Self {
        self.states.insert(uid.into(), state);
        self
    }
}

impl PodStates for Pods {
    fn sources_ready(&self) -> bool {
        self.sources_ready
    }

    fn state(&self, uid: &PodUid) -> PodState {
        self.states.get(uid).copied().unwrap_or(self.others)
    }

    fn needs_first_sandbox(&self, _: &PodUid) -> bool {
        self.first_sandboxes
    }

    fn any_terminating(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }
}
