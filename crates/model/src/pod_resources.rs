//! The data of the PodResources API.

use std::fmt::Debug;

/// A pod of the PodResources API. No device is assigned to single containers yet, so it has only
/// their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodContainers {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The init containers that keep running, by name.
    pub sidecars: Vec<String>,
    /// The regular containers, by name.
    pub containers: Vec<String>,
}

/// The pods of this node, for the PodResources API. Computed for each request; nothing is stored.
pub trait PodResources: Debug + Send + Sync {
    /// The pods that use resources of the node, or will.
    fn active(&self) -> Vec<PodContainers>;

    /// All that the node was given, those that were refused or have ended among them.
    fn all(&self) -> Vec<PodContainers>;

    /// The active one of that name.
    fn named(&self, namespace: &str, name: &str) -> Option<PodContainers>;
}
