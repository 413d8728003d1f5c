//! How far pods are, for who must not wait for the workers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use model::ids::PodUid;
use model::pod_state::WorkerState;

use crate::decide::worker::Working;

/// How far each pod with a worker is. Clones show the same.
#[derive(Debug, Clone, Default)]
pub struct WorkerStates {
    /// Written by the workers' task alone. Never held across an await.
    states: Arc<Mutex<States>>,
}

/// How far a pod is, and as what it is counted.
type States = BTreeMap<PodUid, (WorkerState, Working)>;

impl WorkerStates {
    /// How far a pod is, if it has a worker.
    pub fn get(&self, uid: &PodUid) -> Option<WorkerState> {
        self.lock().get(uid).map(|(state, _)| *state)
    }

    /// Says how far a pod is; answers as what it was counted before.
    pub(crate) fn set(
        &self,
        uid: &PodUid,
        state: Option<(WorkerState, Working)>,
    ) -> Option<Working> {
        let mut states = self.lock();
        let before = match state {
            Some(state) => states.insert(uid.clone(), state),
            None => states.remove(uid),
        };
        before.map(|(_, working)| working)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, States> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
