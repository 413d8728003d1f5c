//! Why a pod is not admitted, or which pods make room for it.

use std::borrow::Cow;

use crate::ids::PodUid;

/// Why a pod is not admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Upstream's reason.
    pub reason: Cow<'static, str>,
    /// The message.
    pub message: String,
}

impl Rejection {
    /// A rejection with this reason.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into() }
    }
}

/// The pods that are preempted for a critical pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preemption {
    /// The pods to terminate.
    pub victims: Vec<PodUid>,
    /// The first insufficient resource.
    pub resource: String,
}

/// A resize that was not allocated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingResize {
    /// Whether it is infeasible: only another request can be allocated.
    pub infeasible: bool,
    /// The message.
    pub message: String,
}

impl PendingResize {
    /// The reason.
    pub fn reason(&self) -> &'static str {
        if self.infeasible { "Infeasible" } else { "Deferred" }
    }
}
