//! The node's own objects: itself and its lease. These calls keep the node alive, so they do not wait for
//! the rate of others.

use std::borrow::Cow;

use async_trait::async_trait;
use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use model::ports::cluster::{ApiError, Sink};
use model::ports::node_api::{NodeApi, NodeLeases};
use serde::Serialize;

use crate::call::{Call, JSON, Lane, STRATEGIC_MERGE};
use crate::follow::{Follower, HasMetadata, Kind};
use crate::{Cluster, urls};

/// The namespace of the leases of all nodes.
const LEASES: &str = "kube-node-lease";

struct OwnNode {
    path: String,
}

impl HasMetadata for Node {
    fn version(&self) -> &str {
        self.metadata.resource_version.as_deref().unwrap_or_default()
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(name).map(String::as_str)
    }
}

impl Kind for OwnNode {
    type Object<'a> = Node;
    type Record = Node;
    type Key = ();
    const NAME: &'static str = "this node";

    fn path(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.path)
    }

    fn key(_: &Node) {}

    fn record(&self, node: Node) -> Node {
        node
    }
}

/// A call that writes.
fn write(method: Method, path: String, content_type: &'static str, body: Vec<u8>) -> Call {
    Call { method, path, content_type, body, lane: Lane::Own }
}

fn body(object: &impl Serialize) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(object).map_err(|error| ApiError::Unreadable(Box::new(error)))
}

/// The object, if there is one.
fn found<T>(answer: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match answer {
        Err(ApiError::NotFound) => Ok(None),
        answer => answer.map(Some),
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
        found(self.caller.ask(Call::get(urls::node(name)).in_own_lane()).await)
    }

    async fn create_node(&self, node: &Node) -> Result<Node, ApiError> {
        let path = "/api/v1/nodes".to_owned();
        self.caller.ask(write(Method::POST, path, JSON, body(node)?)).await
    }

    async fn patch_node_status(&self, name: &str, patch: String) -> Result<Node, ApiError> {
        let status = urls::node(name) + "/status";
        let call = write(Method::PATCH, status, STRATEGIC_MERGE, patch.into_bytes());
        self.caller.ask(call).await
    }
}

fn lease_path(name: &str) -> String {
    format!("{}/{}", urls::leases(LEASES), urls::part(name))
}

#[async_trait]
impl NodeLeases for Cluster {
    async fn node_lease(&self, name: &str) -> Result<Option<Lease>, ApiError> {
        found(self.caller.ask(Call::get(lease_path(name)).in_own_lane()).await)
    }

    async fn create_node_lease(&self, lease: &Lease) -> Result<Lease, ApiError> {
        self.caller.ask(write(Method::POST, urls::leases(LEASES), JSON, body(lease)?)).await
    }

    async fn update_node_lease(&self, lease: &Lease) -> Result<Lease, ApiError> {
        let name = lease.metadata.name.as_deref().unwrap_or_default();
        self.caller.ask(write(Method::PUT, lease_path(name), JSON, body(lease)?)).await
    }
}
