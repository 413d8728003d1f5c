//! What is known about the node at a moment.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerImage, NodeAddress};

use super::health::Pressure;
use super::runtime_view::RuntimeView;

/// What changes while the agent runs. Written by whoever knows, read by who tells it.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// How the runtime is.
    pub runtime: RuntimeView,
    /// What the node is short of.
    pub pressure: Pressure,
    /// The node's addresses, or why they cannot be told; nothing before the first look.
    pub addresses: Option<Result<Vec<NodeAddress>, String>>,
    /// The images, as they are told; nothing before they were listed.
    pub images: Option<Arc<Vec<ContainerImage>>>,
    /// Whether everything was looked at once, as far as it could be.
    pub was_looked_at: bool,
}
