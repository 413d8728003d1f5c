//! How far pods are, for who must not wait for the workers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use model::ids::PodUid;
use model::pod_state::WorkerState;

/// How far each pod with a worker is. Clones show the same.
#[derive(Debug, Clone, Default)]
pub struct WorkerStates {
    /// Written by the workers' task alone. Never held across an await.
    states: Arc<Mutex<BTreeMap<PodUid, WorkerState>>>,
}

impl WorkerStates {
    /// How far a pod is, if it has a worker.
    pub fn get(&self, uid: &PodUid) -> Option<WorkerState> {
        self.lock().get(uid).copied()
    }

    pub(crate) fn set(&self, uid: &PodUid, state: Option<WorkerState>) {
        let mut states = self.lock();
        match state {
            Some(state) => drop(states.insert(uid.clone(), state)),
            None => drop(states.remove(uid)),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<PodUid, WorkerState>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
