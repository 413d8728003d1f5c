//! What goes and what stays. Nothing here looks at anything or does anything.

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

/// What the pod workers and sources say, as far as remains depend on it.
pub trait PodStates: std::fmt::Debug + Send + Sync {
    /// Whether there is anybody who knows of pods.
    fn can_be_asked(&self) -> bool {
        true
    }
    /// Whether every source of pods has reported.
    fn sources_ready(&self) -> bool;
    /// What is known of a pod.
    fn state(&self, uid: &PodUid) -> PodState;
    /// Whether something counts from the pod's first sandbox, such as the time that it may run.
    fn needs_first_sandbox(&self, uid: &PodUid) -> bool;
    /// Whether pods are being terminated. The end of each is reported.
    fn any_ends(&self) -> bool {
        false
    }
}

/// A runtime without an agent: no pod states are known.
#[derive(Debug, Clone, Copy)]
pub struct NoAgent;

impl PodStates for NoAgent {
    fn can_be_asked(&self) -> bool {
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

/// What decisions are made with.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// What is known of pods.
    pub pods: &'a dyn PodStates,
    /// How much is kept.
    pub policy: &'a ContainerPolicy,
    /// Whether the node needs room, so that pods that have ended and still exist keep nothing either.
    pub aggressive: bool,
    /// The time.
    pub now: Timestamp,
}

impl Facts<'_> {
    /// Whether all that the runtime has of a pod goes, and by which rule.
    fn removable(&self, state: PodState) -> Option<&'static str> {
        state.content_removable().or_else(|| state.runtime_removable().filter(|_| self.aggressive))
    }
}

/// Whether what was decided by a rule about a pod still is, now that the pod's state is this: a pod of the
/// same uid may have come, and counts on what is left.
pub(crate) fn still_goes(rule: &str, state: PodState) -> bool {
    match rule {
        "pod-is-gone" | "pod-deleted" | "pod-evicted" => state.content_removable().is_some(),
        "pod-terminated" => state.runtime_removable().is_some(),
        // The others are about what is newer than it, which stays so.
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
