//! The observed state of the node.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerImage, NodeAddress};

use super::health::Pressure;
use super::runtime_view::RuntimeView;

/// Observed state that changes while the agent runs. Written by the observing tasks, read by the status task.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The state of the runtime.
    pub runtime: RuntimeView,
    /// Resources under pressure.
    pub pressure: Pressure,
    /// The node's addresses, or why they could not be determined; `None` before the first check.
    pub addresses: Option<Result<Vec<NodeAddress>, String>>,
    /// The images for the status; `None` before they were listed.
    pub images: Option<Arc<Vec<ContainerImage>>>,
    /// Whether the machine shuts down.
    pub shutting_down: bool,
    /// Whether the first check of everything has ended.
    pub was_looked_at: bool,
}
