//! The node's own objects: node, lease and CSI node. These calls keep the node alive, so they are not rate
//! limited.

use std::borrow::Cow;

use async_trait::async_trait;
use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use model::ports::cluster::{ApiError, Sink};
use model::ports::node_api::{CsiNodes, NODE_LEASES, NodeApi, NodeLeases};

use crate::call::{Call, found};
use crate::decode::Identity;
use crate::follow::{Follower, HasMetadata, Kind};
use crate::{Cluster, urls};

struct OwnNode {
    path: String,
}

impl HasMetadata for Node {
    fn identity(&self) -> Identity<'_> {
        Identity::of(&self.metadata)
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(name).map(String::as_str)
    }
}

/// Drops fields that the agent does not read: managed fields are larger than all the rest.
fn pruned(mut node: Node) -> Node {
    node.metadata.managed_fields = None;
    node
}

impl Kind for OwnNode {
    type Object<'a> = Node;
    type Record = Node;
    type Key = ();
    const NAME: &'static str = "this node";

    fn path(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.path)
    }

    fn key(_: &Identity<'_>) {}

    fn record(&self, node: Node) -> Node {
        pruned(node)
    }
}

#[async_trait]
impl NodeApi for Cluster {
    async fn follow_own_node(&self, name: &str, sink: &dyn Sink<Node, ()>) {
        let selector = urls::part(&format!("metadata.name={name}"));
        let path = format!("/api/v1/nodes?fieldSelector={selector}");
        Follower::new(&self.caller, OwnNode { path }, sink).run().await;
    }

    async fn own_node(&self, name: &str) -> Result<Option<Node>, ApiError> {
        let call = Call::get(urls::node(name)).in_own_lane();
        Ok(found(self.caller.send_decoded(call).await)?.map(pruned))
    }

    async fn create_node(&self, node: &Node) -> Result<Node, ApiError> {
        let call = Call::object(Method::POST, "/api/v1/nodes".to_owned(), node)?;
        self.caller.send_decoded(call.in_own_lane()).await.map(pruned)
    }

    async fn patch_node_status(&self, name: &str, patch: String) -> Result<Node, ApiError> {
        let call = Call::patch(urls::node(name) + "/status", patch).in_own_lane();
        self.caller.send_decoded(call).await.map(pruned)
    }
}

fn lease_path(name: &str) -> String {
    format!("{}/{}", urls::leases(NODE_LEASES), urls::part(name))
}

#[async_trait]
impl NodeLeases for Cluster {
    async fn node_lease(&self, name: &str) -> Result<Option<Lease>, ApiError> {
        found(self.caller.send_decoded(Call::get(lease_path(name)).in_own_lane()).await)
    }

    async fn create_node_lease(&self, lease: &Lease) -> Result<Lease, ApiError> {
        let call = Call::object(Method::POST, urls::leases(NODE_LEASES), lease)?;
        self.caller.send_decoded(call.in_own_lane()).await
    }

    async fn update_node_lease(&self, lease: &Lease) -> Result<Lease, ApiError> {
        let name = lease.metadata.name.as_deref().unwrap_or_default();
        let call = Call::object(Method::PUT, lease_path(name), lease)?;
        self.caller.send_decoded(call.in_own_lane()).await
    }
}

const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes";

fn csi_node_path(name: &str) -> String {
    format!("{CSI_NODES}/{}", urls::part(name))
}

#[async_trait]
impl CsiNodes for Cluster {
    async fn csi_node(&self, name: &str) -> Result<Option<CSINode>, ApiError> {
        found(self.caller.send_decoded(Call::get(csi_node_path(name)).in_own_lane()).await)
    }

    async fn create_csi_node(&self, node: &CSINode) -> Result<CSINode, ApiError> {
        let call = Call::object(Method::POST, CSI_NODES.to_owned(), node)?;
        self.caller.send_decoded(call.in_own_lane()).await
    }

    async fn update_csi_node(&self, node: &CSINode) -> Result<CSINode, ApiError> {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let call = Call::object(Method::PUT, csi_node_path(name), node)?;
        self.caller.send_decoded(call.in_own_lane()).await
    }
}
