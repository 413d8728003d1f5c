//! Decides what is removed and what stays, without I/O.

pub mod containers;
pub mod deletor;
pub mod images;
#[cfg(test)]
mod laws_tests;
pub mod links;
pub mod logs;
pub mod policy;
pub mod sandboxes;
pub mod schedule;
#[cfg(test)]
pub(crate) mod test_pods;

use jiff::Timestamp;
use model::ids::PodUid;
use model::pod_state::PodState;

use self::policy::ContainerPolicy;

/// Pod states on which garbage collection depends.
pub trait PodStates: std::fmt::Debug + Send + Sync {
    /// Whether pod states are available at all.
    fn is_available(&self) -> bool {
        true
    }
    /// Whether every source of pods has reported.
    fn sources_ready(&self) -> bool;
    /// The state of a pod.
    fn state(&self, uid: &PodUid) -> PodState;
    /// Whether a deadline, such as the active deadline, counts from the pod's first sandbox.
    fn needs_first_sandbox(&self, uid: &PodUid) -> bool;
    /// Whether pods are being terminated. The end of each is reported.
    fn any_terminating(&self) -> bool {
        false
    }
}

/// A runtime without an agent: no pod states are known.
#[derive(Debug, Clone, Copy)]
pub struct NoAgent;

impl PodStates for NoAgent {
    fn is_available(&self) -> bool {
        false
    }

    fn sources_ready(&self) -> bool {
        false
    }

    fn state(&self, _: &PodUid) -> PodState {
        PodState::Unknown
    }

    fn needs_first_sandbox(&self, _: &PodUid) -> bool {
        true
    }
}

/// The inputs of decisions.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The states of pods.
    pub pods: &'a dyn PodStates,
    /// How many dead containers are kept.
    pub policy: &'a ContainerPolicy,
    /// Whether the node is under disk pressure, so that terminated pods that still exist keep nothing either.
    pub aggressive: bool,
    /// The time.
    pub now: Timestamp,
}

impl Facts<'_> {
    /// The rule by which all runtime objects of a pod are removed, if any.
    fn removable(&self, state: PodState) -> Option<&'static str> {
        state.content_removable().or_else(|| state.runtime_removable().filter(|_| self.aggressive))
    }
}

/// Whether a decision by a rule about a pod still holds in the pod's current state: a pod with the same uid may
/// have been created and need the remaining objects.
pub(crate) fn still_goes(rule: &str, state: PodState) -> bool {
    match rule {
        "pod-is-gone" | "pod-deleted" | "pod-evicted" => state.content_removable().is_some(),
        "pod-terminated" => state.runtime_removable().is_some(),
        // The other rules depend on newer objects, which remain newer.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use model::pod_state::WorkerState;

    use super::*;

    // behaviour: GC-4, GC-5
    #[test]
    fn remaining_objects_stay_when_the_pod_comes_back() {
        let state = |deleted, terminated| {
            PodState::Known(WorkerState { evicted: false, deleted, terminated })
        };
        let rows = [
            ("pod-is-gone", PodState::Gone, true),
            ("pod-is-gone", PodState::Desired, false),
            ("pod-is-gone", state(false, false), false),
            ("pod-deleted", PodState::Gone, true),
            ("pod-deleted", state(true, true), true),
            ("pod-deleted", state(false, true), false),
            ("pod-terminated", state(false, true), true),
            ("pod-terminated", state(false, false), false),
            ("sandbox-older", state(false, false), true),
        ];
        for (rule, state, expected) in rows {
            assert_eq!(still_goes(rule, state), expected, "{rule} {state:?}");
        }
    }
}
