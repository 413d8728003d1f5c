//! The states of pods, readable without waiting for the workers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use model::ids::PodUid;
use model::pod_state::WorkerState;

use crate::decide::worker::{Lifecycle, Working};

/// The state of each pod that has a worker. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct WorkerStates {
    /// Written only by the workers' task. Never held across an await.
    states: Arc<Mutex<States>>,
}

#[derive(Debug, Default)]
struct States {
    /// The state of a pod, and the lifecycle it is counted under.
    pods: BTreeMap<PodUid, (WorkerState, Working)>,
    /// How many pods are terminating.
    ending: usize,
}

impl WorkerStates {
    /// The state of a pod, if it has a worker.
    pub fn get(&self, uid: &PodUid) -> Option<WorkerState> {
        self.lock().pods.get(uid).map(|(state, _)| *state)
    }

    /// Whether any pod is terminating.
    pub fn any_terminating(&self) -> bool {
        self.lock().ending > 0
    }

    /// Sets the state of a pod; returns the lifecycle it was counted under before.
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
    fn terminating_pods_are_counted_until_they_terminated() {
        let states = WorkerStates::default();
        let config = Config::Desired { is_static: false };
        let set = |uid: &str, lifecycle: Option<Lifecycle>| {
            let state =
                lifecycle.map(|lifecycle| (WorkerState::default(), Working { lifecycle, config }));
            states.set(&uid.into(), state);
            states.any_terminating()
        };
        assert!(!set("a", Some(Lifecycle::Sync)));
        assert!(set("a", Some(Lifecycle::Terminating)));
        assert!(set("a", Some(Lifecycle::Terminating)), "once");
        assert!(set("b", Some(Lifecycle::Terminating)));
        assert!(set("a", Some(Lifecycle::Terminated)), "the other one is");
        assert!(!set("b", None));
        assert!(!set("b", None), "nor is an unknown one");
    }
}
