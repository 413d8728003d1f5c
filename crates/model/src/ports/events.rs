//! Events: what people are told about a pod.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use crate::ids::{PodName, PodUid};

/// How much an event matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// As it should be.
    Normal,
    /// Somebody should look at it.
    Warning,
}

/// The reason of events that remind of a pull that takes long. The event of the pull itself is `Pulling`.
pub const STILL_PULLING: &str = "StillPulling";

/// Something that happened to a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodEvent {
    /// The pod's uid.
    pub pod_uid: PodUid,
    /// The pod's namespace and name.
    pub pod: PodName,
    /// The part of the pod it is about, such as `spec.containers{main}`; empty for the pod itself.
    pub field_path: Arc<str>,
    /// How much it matters.
    pub kind: EventType,
    /// Upstream's word for it.
    pub reason: Cow<'static, str>,
    /// A sentence.
    pub message: String,
}

impl PodEvent {
    /// Something about a whole pod that somebody should look at.
    pub fn warning(
        pod_uid: PodUid,
        pod: PodName,
        reason: impl Into<Cow<'static, str>>,
        message: String,
    ) -> Self {
        let (kind, reason) = (EventType::Warning, reason.into());
        Self { pod_uid, pod, field_path: "".into(), kind, reason, message }
    }

    /// Something about a whole pod that is as it should be.
    pub fn normal(
        pod_uid: PodUid,
        pod: PodName,
        reason: impl Into<Cow<'static, str>>,
        message: String,
    ) -> Self {
        Self { kind: EventType::Normal, ..Self::warning(pod_uid, pod, reason, message) }
    }
}

/// Takes events. Never blocks and never fails: an event that cannot be kept is dropped there.
pub trait Events: Debug + Send + Sync {
    /// Takes an event.
    fn record(&self, event: PodEvent);
}

/// Something that happened to the node itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEvent {
    /// How much it matters.
    pub kind: EventType,
    /// Upstream's word for it.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

/// Takes events of the node, as [`Events`] takes those of pods.
pub trait NodeEvents: Debug + Send + Sync {
    /// Takes an event.
    fn record(&self, event: NodeEvent);
}
