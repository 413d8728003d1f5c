//! The record of incidents: kills, restarts, OOM kills and rejections of containers and pods.

use std::borrow::Cow;
use std::fmt::Debug;

use jiff::Timestamp;

use crate::ids::{PodName, PodUid};
use crate::verdict::Detail;

/// What happened to a container or pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IncidentKind {
    /// The agent killed a container.
    Kill,
    /// The agent restarted a container.
    Restart,
    /// The kernel killed a container that was out of memory.
    Oom,
    /// The agent rejected a pod.
    Rejection,
    /// The agent evicted a pod, because the node was short of resources.
    Eviction,
    /// The agent pulled an image for a container.
    Pull,
}

impl IncidentKind {
    /// Its name in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Restart => "restart",
            Self::Oom => "oom",
            Self::Rejection => "rejection",
            Self::Eviction => "eviction",
            Self::Pull => "pull",
        }
    }
}

/// An incident, for the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incident {
    /// What happened.
    pub kind: IncidentKind,
    /// The pod.
    pub pod: PodName,
    /// Its UID.
    pub uid: PodUid,
    /// The name of the container; empty for the pod; the image for a pull.
    pub container: String,
    /// The ID of the container instance; the UID for a pod; the ID of the image for a pull.
    pub id: String,
    /// Why: `liveness-probe`, `definition-changed`, `pod-deleted`, `exit`, or the reason of a rejection.
    pub rule: Cow<'static, str>,
    /// The numbers: exit code, restart count, back-off, grace period.
    pub detail: Detail,
    /// When it happened; the time of the record if absent.
    pub at: Option<Timestamp>,
}

/// Records incidents. Never blocks and never fails.
pub trait IncidentRecord: Debug + Send + Sync {
    /// Records an incident. A duplicate is dropped.
    fn record_incident(&self, incident: Incident);
}

/// Drops incidents, for programs and tests without a journal.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoIncidents;

impl IncidentRecord for NoIncidents {
    fn record_incident(&self, _: Incident) {}
}
