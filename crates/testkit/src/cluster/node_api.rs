//! The API server in memory for the node's own objects: full nodes, leases and CSI nodes.

use std::collections::BTreeMap;

use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::ports::cluster::{ApiError, Change, Sink};
use model::ports::node_api::{CsiNodes, NodeApi, NodeLeases};
use serde_json::Value;

use super::call_faults::{CallFault, CallFaults, with_fault};
use super::strategic_merge::patched;
use super::watched::Watched;

/// The calls for the node's own objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeApiCall {
    /// Reading the node.
    Get,
    /// Creating the node.
    Create,
    /// Patching the node's status.
    Patch,
    /// Reading the lease.
    GetLease,
    /// Creating the lease.
    CreateLease,
    /// Replacing the lease.
    UpdateLease,
    /// Reading the CSI node.
    GetCsiNode,
    /// Creating the CSI node.
    CreateCsiNode,
    /// Replacing the CSI node.
    UpdateCsiNode,
}

#[derive(Debug, Default)]
struct State {
    version: u64,
    uids: u64,
    nodes: BTreeMap<String, Node>,
    leases: BTreeMap<String, Lease>,
    csi_nodes: BTreeMap<String, CSINode>,
    faults: CallFaults<NodeApiCall>,
    calls: Vec<(NodeApiCall, Option<Value>)>,
    is_frozen: bool,
    /// The number of watches so far.
    watches: u64,
    /// The number of the last watch that receives nothing any more.
    broken_watches: u64,
    /// The number of expirations: each makes the watches restart with a list.
    expired: u64,
}

/// Nodes, leases and CSI nodes. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct MemoryNodeApi {
    shared: Watched<State>,
}

fn name_of(metadata: &ObjectMeta) -> String {
    metadata.name.clone().unwrap_or_default()
}

impl State {
    /// Sets a new version on an object, and a UID if it is new.
    fn stamp(&mut self, metadata: &mut ObjectMeta, is_new: bool) {
        self.version += 1;
        metadata.resource_version = Some(self.version.to_string());
        if is_new {
            self.uids += 1;
            metadata.uid = Some(format!("00000000-0000-4000-8000-{:012x}", self.uids));
        }
    }
}

impl MemoryNodeApi {
    /// A node, if it exists.
    pub fn node(&self, name: &str) -> Option<Node> {
        self.shared.state().nodes.get(name).cloned()
    }

    /// A lease, if it exists.
    pub fn lease(&self, name: &str) -> Option<Lease> {
        self.shared.state().leases.get(name).cloned()
    }

    /// A CSI node, if it exists.
    pub fn csi_node_of(&self, name: &str) -> Option<CSINode> {
        self.shared.state().csi_nodes.get(name).cloned()
    }

    /// Creates or replaces a node, as another client would.
    pub fn put_node(&self, mut node: Node) {
        self.shared.change(|state| {
            let name = name_of(&node.metadata);
            let is_new = !state.nodes.contains_key(&name);
            state.stamp(&mut node.metadata, is_new);
            state.nodes.insert(name, node);
        });
    }

    /// Changes a node, as another client would.
    pub fn update_node(&self, name: &str, change: impl FnOnce(&mut Node)) {
        if let Some(mut node) = self.node(name) {
            change(&mut node);
            self.put_node(node);
        }
    }

    /// Deletes a node.
    pub fn drop_node(&self, name: &str) {
        self.shared.change(|state| state.nodes.remove(name));
    }

    /// Changes a lease, as another client would.
    pub fn update_lease(&self, name: &str, change: impl FnOnce(&mut Lease)) {
        self.shared.change(|state| {
            let Some(mut lease) = state.leases.get(name).cloned() else { return };
            change(&mut lease);
            state.stamp(&mut lease.metadata, false);
            state.leases.insert(name.to_owned(), lease);
        });
    }

    /// Deletes a lease.
    pub fn drop_lease(&self, name: &str) {
        self.shared.change(|state| state.leases.remove(name));
    }

    /// Freezes or unfreezes the watches: frozen ones send nothing, as a lost connection that was not detected.
    pub fn freeze(&self, is_frozen: bool) {
        self.shared.change(|state| state.is_frozen = is_frozen);
    }

    /// Breaks the current watches: they receive nothing any more; new ones work.
    pub fn break_watches(&self) {
        self.shared.change(|state| state.broken_watches = state.watches);
    }

    /// Makes the watches restart with a list.
    pub fn expire(&self) {
        self.shared.change(|state| state.expired += 1);
    }

    /// Makes the next calls of a kind fail, this many times.
    pub fn inject_fault(&self, kind: NodeApiCall, fault: CallFault, times: u32) {
        self.shared.state().faults.add(None, kind, fault, times);
    }

    /// Clears all call faults.
    pub fn clear_faults(&self) {
        self.shared.state().faults.clear();
    }

    /// All calls so far, in order.
    pub fn calls(&self) -> Vec<NodeApiCall> {
        self.shared.state().calls.iter().map(|(kind, _)| *kind).collect()
    }

    /// The number of calls of a kind.
    pub fn count(&self, kind: NodeApiCall) -> usize {
        self.calls().into_iter().filter(|called| *called == kind).count()
    }

    /// The patches so far, in order.
    pub fn patches(&self) -> Vec<Value> {
        self.shared.state().calls.iter().filter_map(|(_, body)| body.clone()).collect()
    }

    /// Clears the recorded calls.
    pub fn forget_calls(&self) {
        self.shared.state().calls.clear();
    }

    /// Runs a call with its fault, if any.
    async fn call<T>(
        &self,
        kind: NodeApiCall,
        body: Option<Value>,
        call: impl FnOnce(&mut State) -> Result<T, ApiError> + Send,
    ) -> Result<T, ApiError> {
        let fault = {
            let mut state = self.shared.state();
            state.calls.push((kind, body));
            state.faults.next("", kind)
        };
        with_fault(fault, || self.shared.change(call)).await
    }
}

#[async_trait]
impl NodeApi for MemoryNodeApi {
    async fn follow_own_node(&self, name: &str, sink: &dyn Sink<Node, ()>) {
        let mut changed = self.shared.subscribe();
        let number = {
            let mut state = self.shared.state();
            state.watches += 1;
            state.watches
        };
        let mut begun = None;
        let mut sent: Option<Node> = None;
        loop {
            let mut news = Vec::new();
            {
                let state = self.shared.state();
                let node = state.nodes.get(name).cloned();
                let receives = !state.is_frozen && number > state.broken_watches;
                if receives && begun != Some(state.expired) {
                    begun = Some(state.expired);
                    news.push(Change::Restarted);
                    news.extend(node.clone().map(Change::Applied));
                    news.push(Change::Complete);
                    sent = node;
                } else if receives && sent != node {
                    news.push(node.clone().map_or(Change::Gone(()), Change::Applied));
                    sent = node;
                }
            }
            for change in news {
                sink.receive(change);
            }
            if changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    async fn own_node(&self, name: &str) -> Result<Option<Node>, ApiError> {
        self.call(NodeApiCall::Get, None, |state| Ok(state.nodes.get(name).cloned())).await
    }

    async fn create_node(&self, node: &Node) -> Result<Node, ApiError> {
        let create = |state: &mut State| {
            let mut node = node.clone();
            let name = name_of(&node.metadata);
            if state.nodes.contains_key(&name) {
                return Err(ApiError::Conflict("already exists".to_owned()));
            }
            state.stamp(&mut node.metadata, true);
            state.nodes.insert(name, node.clone());
            Ok(node)
        };
        self.call(NodeApiCall::Create, None, create).await
    }

    async fn patch_node_status(&self, name: &str, patch: String) -> Result<Node, ApiError> {
        let unreadable = |error| ApiError::Unreadable(Box::new(error));
        let patch: Value = serde_json::from_str(&patch).map_err(unreadable)?;
        let body = patch.clone();
        let change = |state: &mut State| {
            let node = state.nodes.get(name).cloned().ok_or(ApiError::NotFound)?;
            let mut changed = patched(&node, &patch)?;
            // A status patch may include labels and annotations, but nothing else outside the status.
            changed.spec = node.spec;
            state.stamp(&mut changed.metadata, false);
            state.nodes.insert(name.to_owned(), changed.clone());
            Ok(changed)
        };
        self.call(NodeApiCall::Patch, Some(body), change).await
    }
}

#[async_trait]
impl NodeLeases for MemoryNodeApi {
    async fn node_lease(&self, name: &str) -> Result<Option<Lease>, ApiError> {
        self.call(NodeApiCall::GetLease, None, |state| Ok(state.leases.get(name).cloned())).await
    }

    async fn create_node_lease(&self, lease: &Lease) -> Result<Lease, ApiError> {
        let create = |state: &mut State| {
            let mut lease = lease.clone();
            let name = name_of(&lease.metadata);
            if state.leases.contains_key(&name) {
                return Err(ApiError::Conflict("already exists".to_owned()));
            }
            state.stamp(&mut lease.metadata, true);
            state.leases.insert(name, lease.clone());
            Ok(lease)
        };
        self.call(NodeApiCall::CreateLease, None, create).await
    }

    async fn update_node_lease(&self, lease: &Lease) -> Result<Lease, ApiError> {
        let update = |state: &mut State| {
            let mut lease = lease.clone();
            let name = name_of(&lease.metadata);
            let found = state.leases.get(&name).ok_or(ApiError::NotFound)?;
            if found.metadata.resource_version != lease.metadata.resource_version {
                return Err(ApiError::Conflict("resource version mismatch".to_owned()));
            }
            state.stamp(&mut lease.metadata, false);
            state.leases.insert(name, lease.clone());
            Ok(lease)
        };
        self.call(NodeApiCall::UpdateLease, None, update).await
    }
}

#[async_trait]
impl CsiNodes for MemoryNodeApi {
    async fn csi_node(&self, name: &str) -> Result<Option<CSINode>, ApiError> {
        self.call(NodeApiCall::GetCsiNode, None, |state| Ok(state.csi_nodes.get(name).cloned()))
            .await
    }

    async fn create_csi_node(&self, node: &CSINode) -> Result<CSINode, ApiError> {
        let create = |state: &mut State| {
            let mut node = node.clone();
            let name = name_of(&node.metadata);
            if state.csi_nodes.contains_key(&name) {
                return Err(ApiError::Conflict("already exists".to_owned()));
            }
            state.stamp(&mut node.metadata, true);
            state.csi_nodes.insert(name, node.clone());
            Ok(node)
        };
        self.call(NodeApiCall::CreateCsiNode, None, create).await
    }

    async fn update_csi_node(&self, node: &CSINode) -> Result<CSINode, ApiError> {
        let update = |state: &mut State| {
            let mut node = node.clone();
            let name = name_of(&node.metadata);
            let found = state.csi_nodes.get(&name).ok_or(ApiError::NotFound)?;
            if found.metadata.resource_version != node.metadata.resource_version {
                return Err(ApiError::Conflict("resource version mismatch".to_owned()));
            }
            state.stamp(&mut node.metadata, false);
            state.csi_nodes.insert(name, node.clone());
            Ok(node)
        };
        self.call(NodeApiCall::UpdateCsiNode, None, update).await
    }
}
