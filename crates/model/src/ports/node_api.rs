//! The node's own objects on the API server: itself, the lease that says that it lives, and its CSI node.

use std::fmt::Debug;

use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;

use crate::ports::cluster::{ApiError, Sink};

/// The namespace of the leases of all nodes.
pub const NODE_LEASES: &str = "kube-node-lease";

/// One node object, which its agent keeps.
#[async_trait]
pub trait NodeApi: Debug + Send + Sync {
    /// Tells the node of that name and every change of it, as `PodFeed::follow_pods` does. Never returns.
    async fn follow_own_node(&self, name: &str, sink: &dyn Sink<Node, ()>);

    /// Asks the server itself for the node; `None` when it does not exist.
    async fn own_node(&self, name: &str) -> Result<Option<Node>, ApiError>;

    /// Makes the node, as it is on the server then; a conflict when it exists.
    async fn create_node(&self, node: &Node) -> Result<Node, ApiError>;

    /// Changes status, labels and annotations by a strategic merge; the node as it is then. A patch that
    /// names a uid is refused with a conflict when the node has another.
    async fn patch_node_status(&self, name: &str, patch: String) -> Result<Node, ApiError>;
}

/// The lease of one node, which its agent keeps. Its namespace is the one of all nodes' leases.
#[async_trait]
pub trait NodeLeases: Debug + Send + Sync {
    /// The lease of that name; `None` when it does not exist.
    async fn node_lease(&self, name: &str) -> Result<Option<Lease>, ApiError>;

    /// Makes it; a conflict when it exists.
    async fn create_node_lease(&self, lease: &Lease) -> Result<Lease, ApiError>;

    /// Replaces it; a conflict when it is not at the version that the lease says any more.
    async fn update_node_lease(&self, lease: &Lease) -> Result<Lease, ApiError>;
}

/// The `CSINode` of one node, which its agent keeps.
#[async_trait]
pub trait CsiNodes: Debug + Send + Sync {
    /// The object of that name; `None` when it does not exist.
    async fn csi_node(&self, name: &str) -> Result<Option<CSINode>, ApiError>;

    /// Creates it; a conflict when it exists.
    async fn create_csi_node(&self, node: &CSINode) -> Result<CSINode, ApiError>;

    /// Replaces it; a conflict when it is not at the version that the object says any more.
    async fn update_csi_node(&self, node: &CSINode) -> Result<CSINode, ApiError>;
}
