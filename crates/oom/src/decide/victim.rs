//! The pod of a killed process.

use std::sync::Arc;

use model::ids::PodName;

/// A container of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VictimContainer {
    /// The list of the pod spec that it is in, such as `containers`.
    pub list: &'static str,
    /// Its name.
    pub name: Arc<str>,
}

/// The pod of a killed process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VictimPod {
    /// Its name.
    pub pod: PodName,
    /// The container; none for a process of the sandbox, or of no container.
    pub container: Option<VictimContainer>,
}
