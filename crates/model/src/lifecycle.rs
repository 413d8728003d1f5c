//! Lifecycle events: what changed in the runtime, derived by comparing two observations.

use crate::ids::ObjectId;

/// One change of a container or sandbox of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum LifecycleEvent {
    /// It runs now and did not before.
    Started(ObjectId),
    /// It no longer runs, or was never seen running and is found dead.
    Died(ObjectId),
    /// The runtime no longer knows it.
    Removed(ObjectId),
    /// It is in a state that is neither running nor exited. No reason to sync the pod.
    Changed(ObjectId),
    /// The pod's status was read again although no container changed state.
    PodSync,
}

impl LifecycleEvent {
    /// The object that died, if the event is a death.
    pub fn died(&self) -> Option<&ObjectId> {
        match self {
            Self::Died(object) => Some(object),
            Self::Started(_) | Self::Removed(_) | Self::Changed(_) | Self::PodSync => None,
        }
    }

    /// Whether the pod's worker must sync. A removal follows a death that was
    /// already reported, and an object that is being created is not relevant yet.
    pub fn needs_sync(&self) -> bool {
        match self {
            Self::Started(_) | Self::Died(_) | Self::PodSync => true,
            Self::Removed(_) | Self::Changed(_) => false,
        }
    }
}
