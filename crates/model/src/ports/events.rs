//! Events of pods and of the node.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use crate::ids::{PodName, PodUid};

/// The type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// `Normal`.
    Normal,
    /// `Warning`.
    Warning,
}

/// The reason of events about a pull that takes long. The event of the pull itself is `Pulling`.
pub const STILL_PULLING: &str = "StillPulling";

/// An event of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodEvent {
    /// The pod's uid.
    pub pod_uid: PodUid,
    /// The pod's namespace and name.
    pub pod: PodName,
    /// The field path, such as `spec.containers{main}`; empty for the pod itself.
    pub field_path: Arc<str>,
    /// The type.
    pub kind: EventType,
    /// Upstream's reason.
    pub reason: Cow<'static, str>,
    /// The message.
    pub message: String,
    /// The annotations of the event object.
    pub annotations: EventAnnotations,
}

/// Annotations of an event object, by name.
pub type EventAnnotations = Vec<(&'static str, String)>;

impl PodEvent {
    /// A warning about a whole pod.
    pub fn warning(
        pod_uid: PodUid,
        pod: PodName,
        reason: impl Into<Cow<'static, str>>,
        message: String,
    ) -> Self {
        let (kind, reason) = (EventType::Warning, reason.into());
        Self {
            pod_uid,
            pod,
            field_path: "".into(),
            kind,
            reason,
            message,
            annotations: EventAnnotations::new(),
        }
    }

    /// A normal event of a whole pod.
    pub fn normal(
        pod_uid: PodUid,
        pod: PodName,
        reason: impl Into<Cow<'static, str>>,
        message: String,
    ) -> Self {
        Self { kind: EventType::Normal, ..Self::warning(pod_uid, pod, reason, message) }
    }
}

/// Takes events. Never blocks and never fails: an event that cannot be stored is dropped.
pub trait Events: Debug + Send + Sync {
    /// Takes an event.
    fn record(&self, event: PodEvent);
}

/// An event of the node itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEvent {
    /// The type.
    pub kind: EventType,
    /// Upstream's reason.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

/// Takes events of the node, as [`Events`] takes those of pods.
pub trait NodeEvents: Debug + Send + Sync {
    /// Takes an event.
    fn record(&self, event: NodeEvent);
}
