//! The condition that a pod waits for, and the time of its next sync.

use std::fmt::{self, Display, Formatter};

use jiff::Timestamp;

use crate::ports::events::PodEvent;

/// When a pod is synced again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// At the next resync: the pod is converged.
    Resync,
    /// Soon: the pod's network is not ready.
    Network,
    /// When the back-off of a failure ends.
    At(Timestamp),
    /// When the pod's active deadline ends.
    Deadline(Timestamp),
    /// After the delay for failures.
    Failure,
}

/// A requirement of a pod that is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitOn {
    /// The network of the node.
    Network,
    /// These volumes of the pod.
    Volumes(Vec<String>),
    /// This image.
    Image(String),
    /// A version of the agent that supports these fields of the spec.
    Unsupported(String),
}

impl Display for WaitOn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network => f.write_str("the network of the node"),
            Self::Volumes(names) => write!(f, "volumes {}", names.join(", ")),
            Self::Image(name) => write!(f, "image {name}"),
            Self::Unsupported(message) => f.write_str(message),
        }
    }
}

/// Why a sync stops. The pod is synced again when the requirement is marked as changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The requirement.
    pub on: WaitOn,
    /// When the pod is synced again at the latest, in case the mark is lost.
    pub at_latest: Retry,
    /// The event that reports it.
    pub event: Option<PodEvent>,
}
