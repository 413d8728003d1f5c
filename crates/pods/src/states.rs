//! How far pods are, for who must not wait for the workers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use model::ids::PodUid;
use model::pod_state::WorkerState;

use crate::decide::worker::{Lifecycle, Working};

/// How far each pod with a worker is. Clones show the same.
#[derive(Debug, Clone, Default)]
pub struct WorkerStates {
    /// Written by the workers' task alone. Never held across an await.
    states: Arc<Mutex<States>>,
}

#[derive(Debug, Default)]
struct States {
    /// How far a pod is, and as what it is counted.
    pods: BTreeMap<PodUid, (WorkerState, Working)>,
    /// How many of them are being ended.
    ending: usize,
}

impl WorkerStates {
    /// How far a pod is, if it has a worker.
    pub fn get(&self, uid: &PodUid) -> Option<WorkerState> {
        self.lock().pods.get(uid).map(|(state, _)| *state)
    }

    /// Whether any pod is being ended.
    pub fn any_ends(&self) -> bool {
        self.lock().ending > 0
    }

    /// Says how far a pod is; answers as what it was counted before.
    pub(crate) fn set(
        &self,
        uid: &PodUid,
        state: Option<(WorkerState, Working)>,
    ) -> Option<Working> {
        let mut states = self.lock();
        let ends = |working: &Working| working.lifecycle == Lifecycle::Terminating;
        let now = state.as_ref().is_some_and(|(_, working)| ends(working));
        let before = match state {
            Some(state) => states.pods.insert(uid.clone(), state),
            None => states.pods.remove(uid),
        };
        let before = before.map(|(_, working)| working);
        states.ending -= usize::from(before.as_ref().is_some_and(ends));
        states.ending += usize::from(now);
        before
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, States> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::worker::Config;

    #[test]
    fn pods_that_are_being_ended_are_counted_until_they_have_ended() {
        let states = WorkerStates::default();
        let config = Config::Desired { is_static: false };
        let set = |uid: &str, lifecycle: Option<Lifecycle>| {
            let state =
                lifecycle.map(|lifecycle| (WorkerState::default(), Working { lifecycle, config }));
            states.set(&uid.into(), state);
            states.any_ends()
        };
        assert!(!set("a", Some(Lifecycle::Sync)));
        assert!(set("a", Some(Lifecycle::Terminating)));
        assert!(set("a", Some(Lifecycle::Terminating)), "once");
        assert!(set("b", Some(Lifecycle::Terminating)));
        assert!(set("a", Some(Lifecycle::Terminated)), "the other one is");
        assert!(!set("b", None));
        assert!(!set("b", None), "nor is one that nobody knows");
    }
}
