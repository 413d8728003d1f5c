//! Why a pod is not admitted, or which pods make room for it.

use std::borrow::Cow;

use crate::ids::PodUid;

/// Why a pod is not admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Upstream's word for it.
    pub reason: Cow<'static, str>,
    /// A sentence.
    pub message: String,
}

impl Rejection {
    /// For a reason that is known by name.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into() }
    }
}

/// The pods that make room for a critical pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preemption {
    /// They are terminated.
    pub victims: Vec<PodUid>,
    /// The first resource that the node has too little of.
    pub resource: String,
}

/// A pod requests other resources, and was not allocated them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingResize {
    /// Whether it never will be, until it requests something else.
    pub infeasible: bool,
    /// Why, in a sentence.
    pub message: String,
}

impl PendingResize {
    /// Why, in a word.
    pub fn reason(&self) -> &'static str {
        if self.infeasible { "Infeasible" } else { "Deferred" }
    }
}
