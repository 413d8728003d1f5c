//! What is told to whoever asks which resources of the node pods have.

use std::fmt::Debug;

/// A pod, as far as it is told of. Nothing is handed out to its containers alone yet, so there is no more to say than
/// what they are called.
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

/// The pods of this node, for whoever asks. Made up when asked; nothing is kept.
pub trait PodResources: Debug + Send + Sync {
    /// Those that have something of the node, or will.
    fn active(&self) -> Vec<PodContainers>;

    /// All that the node was given, those that were refused or have ended among them.
    fn all(&self) -> Vec<PodContainers>;

    /// The active one of that name.
    fn named(&self, namespace: &str, name: &str) -> Option<PodContainers>;
}
