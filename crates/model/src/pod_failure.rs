//! Why a pod as a whole has failed.

use std::borrow::Cow;

/// Why a pod as a whole has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFailure {
    /// The reason: `DeadlineExceeded`, `Evicted`, …
    pub reason: &'static str,
    /// The message.
    pub message: String,
    /// The message of the condition `DisruptionTarget`, if the node terminated the pod in favor of others.
    pub disruption: Option<Cow<'static, str>>,
}

impl PodFailure {
    /// Whether the node kills the pod to reclaim its resources, so that its dead containers may be removed at once. The
    /// pods of a shutdown keep theirs, like upstream.
    pub fn is_eviction(&self) -> bool {
        matches!(self.reason, "Evicted" | "Preempting")
    }
}
