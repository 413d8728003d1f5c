//! The node's own objects on the API server: its `Node`, its lease, and its `CSINode`.

use std::fmt::Debug;

use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;

use crate::ports::cluster::{ApiError, Sink};

/// The namespace of the leases of all nodes.
pub const NODE_LEASES: &str = "kube-node-lease";

/// The node object of the agent.
#[async_trait]
pub trait NodeApi: Debug + Send + Sync {
    /// Sends the node with that name and every change of it, as `PodFeed::follow_pods` does. Never returns.
    async fn follow_own_node(&self, name: &str, sink: &dyn Sink<Node, ()>);

    /// Gets the node from the server; `None` if it does not exist.
    async fn own_node(&self, name: &str) -> Result<Option<Node>, ApiError>;

    /// Creates the node, and returns it; a conflict if it exists.
    async fn create_node(&self, node: &Node) -> Result<Node, ApiError>;

    /// Patches status, labels and annotations by a strategic merge, and returns the node. A patch
    /// with a UID is a conflict if the node has another.
    async fn patch_node_status(&self, name: &str, patch: String) -> Result<Node, ApiError>;
}

/// The lease of the agent's node, in the namespace of all node leases.
#[async_trait]
pub trait NodeLeases: Debug + Send + Sync {
    /// Gets the lease; `None` if it does not exist.
    async fn node_lease(&self, name: &str) -> Result<Option<Lease>, ApiError>;

    /// Creates it; a conflict if it exists.
    async fn create_node_lease(&self, lease: &Lease) -> Result<Lease, ApiError>;

    /// Replaces it; a conflict if the server has another version than this one.
    async fn update_node_lease(&self, lease: &Lease) -> Result<Lease, ApiError>;
}

/// The `CSINode` of the agent's node.
#[async_trait]
pub trait CsiNodes: Debug + Send + Sync {
    /// Gets the object; `None` if it does not exist.
    async fn csi_node(&self, name: &str) -> Result<Option<CSINode>, ApiError>;

    /// Creates it; a conflict if it exists.
    async fn create_csi_node(&self, node: &CSINode) -> Result<CSINode, ApiError>;

    /// Replaces it; a conflict if the server has another version than this one.
    async fn update_csi_node(&self, node: &CSINode) -> Result<CSINode, ApiError>;
}
