//! What goes and what stays. Nothing here looks at anything or does anything.

pub mod containers;
pub mod deletor;
pub mod images;
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
    /// Whether every source of pods was heard.
    fn sources_ready(&self) -> bool;
    /// What is known of a pod.
    fn state(&self, uid: &PodUid) -> PodState;
    /// Whether something counts from the pod's first sandbox, such as the time that it may run.
    fn needs_first_sandbox(&self, uid: &PodUid) -> bool;
}

/// Nobody to ask: a bare runtime, of whose pods nothing is known.
#[derive(Debug, Clone, Copy)]
pub struct NobodyToAsk;

impl PodStates for NobodyToAsk {
    fn sources_ready(&self) -> bool {
        false
    }

    fn state(&self, _: &PodUid) -> PodState {
        PodState::Unasked
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
