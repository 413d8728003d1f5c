//! The API server in memory, as far as a node's own objects go: whole nodes and their leases.

use std::collections::BTreeMap;

use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::ports::cluster::{ApiError, Change, Sink};
use model::ports::node_api::{CsiNodes, NodeApi, NodeLeases};
use serde_json::Value;

use super::strategic_merge::patched;
use super::troubles::{Trouble, Troubles, troubled};
use super::watched::Watched;

/// What can be asked about a node's own objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeAsk {
    /// The node.
    Get,
    /// To make the node.
    Create,
    /// To change the node's status.
    Patch,
    /// The lease.
    GetLease,
    /// To make the lease.
    CreateLease,
    /// To replace the lease.
    UpdateLease,
    /// The CSI node.
    GetCsiNode,
    /// To create the CSI node.
    CreateCsiNode,
    /// To replace the CSI node.
    UpdateCsiNode,
}

#[derive(Debug, Default)]
struct State {
    version: u64,
    uids: u64,
    nodes: BTreeMap<String, Node>,
    leases: BTreeMap<String, Lease>,
    csi_nodes: BTreeMap<String, CSINode>,
    troubles: Troubles<NodeAsk>,
    calls: Vec<(NodeAsk, Option<Value>)>,
    is_frozen: bool,
    /// How many follow, or did.
    followers: u64,
    /// How many of them hear nothing any more.
    deaf: u64,
    /// Counts how often those who follow must begin anew.
    expired: u64,
}

/// Nodes and their leases. Clones are the same ones.
#[derive(Debug, Clone, Default)]
pub struct MemoryNodeApi {
    shared: Watched<State>,
}

fn name_of(metadata: &ObjectMeta) -> String {
    metadata.name.clone().unwrap_or_default()
}

impl State {
    /// Gives an object a version of its own, and a uid if it is new.
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
    /// A node, if it is there.
    pub fn node(&self, name: &str) -> Option<Node> {
        self.shared.state().nodes.get(name).cloned()
    }

    /// A lease, if it is there.
    pub fn lease(&self, name: &str) -> Option<Lease> {
        self.shared.state().leases.get(name).cloned()
    }

    /// A CSI node, if it is there.
    pub fn csi_node_of(&self, name: &str) -> Option<CSINode> {
        self.shared.state().csi_nodes.get(name).cloned()
    }

    /// Puts a node there, as somebody else would.
    pub fn put_node(&self, mut node: Node) {
        self.shared.change(|state| {
            let name = name_of(&node.metadata);
            let is_new = !state.nodes.contains_key(&name);
            state.stamp(&mut node.metadata, is_new);
            state.nodes.insert(name, node);
        });
    }

    /// Changes a node, as somebody else would.
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

    /// Changes a lease, as somebody else would.
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

    /// Nothing is told while it is frozen: a watch that was lost and nobody noticed.
    pub fn freeze(&self, is_frozen: bool) {
        self.shared.change(|state| state.is_frozen = is_frozen);
    }

    /// Those who follow now hear nothing any more; those who begin to follow do.
    pub fn deafen(&self) {
        self.shared.change(|state| state.deaf = state.followers);
    }

    /// Those who follow must begin anew.
    pub fn expire(&self) {
        self.shared.change(|state| state.expired += 1);
    }

    /// From now on calls go wrong, so many times.
    pub fn trouble(&self, ask: NodeAsk, trouble: Trouble, times: u32) {
        self.shared.state().troubles.add(None, ask, trouble, times);
    }

    /// Nothing goes wrong any more.
    pub fn end_troubles(&self) {
        self.shared.state().troubles.clear();
    }

    /// All calls so far, in order.
    pub fn calls(&self) -> Vec<NodeAsk> {
        self.shared.state().calls.iter().map(|(ask, _)| *ask).collect()
    }

    /// How often something was asked.
    pub fn count(&self, ask: NodeAsk) -> usize {
        self.calls().into_iter().filter(|asked| *asked == ask).count()
    }

    /// The patches so far, in order.
    pub fn patches(&self) -> Vec<Value> {
        self.shared.state().calls.iter().filter_map(|(_, body)| body.clone()).collect()
    }

    /// Forgets which calls there were.
    pub fn forget_calls(&self) {
        self.shared.state().calls.clear();
    }

    /// Does a call, unless something goes wrong with it.
    async fn call<T>(
        &self,
        ask: NodeAsk,
        body: Option<Value>,
        call: impl FnOnce(&mut State) -> Result<T, ApiError> + Send,
    ) -> Result<T, ApiError> {
        let trouble = {
            let mut state = self.shared.state();
            state.calls.push((ask, body));
            state.troubles.next("", ask)
        };
        troubled(trouble, || self.shared.change(call)).await
    }
}

#[async_trait]
impl NodeApi for MemoryNodeApi {
    async fn follow_own_node(&self, name: &str, sink: &dyn Sink<Node, ()>) {
        let mut changed = self.shared.subscribe();
        let number = {
            let mut state = self.shared.state();
            state.followers += 1;
            state.followers
        };
        let mut begun = None;
        let mut told: Option<Node> = None;
        loop {
            let mut news = Vec::new();
            {
                let state = self.shared.state();
                let node = state.nodes.get(name).cloned();
                let is_told = !state.is_frozen && number > state.deaf;
                if is_told && begun != Some(state.expired) {
                    begun = Some(state.expired);
                    news.push(Change::Restarted);
                    news.extend(node.clone().map(Change::Applied));
                    news.push(Change::Complete);
                    told = node;
                } else if is_told && told != node {
                    news.push(node.clone().map_or(Change::Gone(()), Change::Applied));
                    told = node;
                }
            }
            for change in news {
                sink.hear(change);
            }
            if changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    async fn own_node(&self, name: &str) -> Result<Option<Node>, ApiError> {
        self.call(NodeAsk::Get, None, |state| Ok(state.nodes.get(name).cloned())).await
    }

    async fn create_node(&self, node: &Node) -> Result<Node, ApiError> {
        let create = |state: &mut State| {
            let mut node = node.clone();
            let name = name_of(&node.metadata);
            if state.nodes.contains_key(&name) {
                return Err(ApiError::Conflict("it exists".to_owned()));
            }
            state.stamp(&mut node.metadata, true);
            state.nodes.insert(name, node.clone());
            Ok(node)
        };
        self.call(NodeAsk::Create, None, create).await
    }

    async fn patch_node_status(&self, name: &str, patch: String) -> Result<Node, ApiError> {
        let unreadable = |error| ApiError::Unreadable(Box::new(error));
        let patch: Value = serde_json::from_str(&patch).map_err(unreadable)?;
        let body = patch.clone();
        let change = |state: &mut State| {
            let node = state.nodes.get(name).cloned().ok_or(ApiError::NotFound)?;
            let mut changed = patched(&node, &patch)?;
            // What is patched is the status; labels and annotations may go along, all else does not.
            changed.spec = node.spec;
            state.stamp(&mut changed.metadata, false);
            state.nodes.insert(name.to_owned(), changed.clone());
            Ok(changed)
        };
        self.call(NodeAsk::Patch, Some(body), change).await
    }
}

#[async_trait]
impl NodeLeases for MemoryNodeApi {
    async fn node_lease(&self, name: &str) -> Result<Option<Lease>, ApiError> {
        self.call(NodeAsk::GetLease, None, |state| Ok(state.leases.get(name).cloned())).await
    }

    async fn create_node_lease(&self, lease: &Lease) -> Result<Lease, ApiError> {
        let create = |state: &mut State| {
            let mut lease = lease.clone();
            let name = name_of(&lease.metadata);
            if state.leases.contains_key(&name) {
                return Err(ApiError::Conflict("it exists".to_owned()));
            }
            state.stamp(&mut lease.metadata, true);
            state.leases.insert(name, lease.clone());
            Ok(lease)
        };
        self.call(NodeAsk::CreateLease, None, create).await
    }

    async fn update_node_lease(&self, lease: &Lease) -> Result<Lease, ApiError> {
        let update = |state: &mut State| {
            let mut lease = lease.clone();
            let name = name_of(&lease.metadata);
            let found = state.leases.get(&name).ok_or(ApiError::NotFound)?;
            if found.metadata.resource_version != lease.metadata.resource_version {
                return Err(ApiError::Conflict("the version is another".to_owned()));
            }
            state.stamp(&mut lease.metadata, false);
            state.leases.insert(name, lease.clone());
            Ok(lease)
        };
        self.call(NodeAsk::UpdateLease, None, update).await
    }
}

#[async_trait]
impl CsiNodes for MemoryNodeApi {
    async fn csi_node(&self, name: &str) -> Result<Option<CSINode>, ApiError> {
        self.call(NodeAsk::GetCsiNode, None, |state| Ok(state.csi_nodes.get(name).cloned())).await
    }

    async fn create_csi_node(&self, node: &CSINode) -> Result<CSINode, ApiError> {
        let create = |state: &mut State| {
            let mut node = node.clone();
            let name = name_of(&node.metadata);
            if state.csi_nodes.contains_key(&name) {
                return Err(ApiError::Conflict("it exists".to_owned()));
            }
            state.stamp(&mut node.metadata, true);
            state.csi_nodes.insert(name, node.clone());
            Ok(node)
        };
        self.call(NodeAsk::CreateCsiNode, None, create).await
    }

    async fn update_csi_node(&self, node: &CSINode) -> Result<CSINode, ApiError> {
        let update = |state: &mut State| {
            let mut node = node.clone();
            let name = name_of(&node.metadata);
            let found = state.csi_nodes.get(&name).ok_or(ApiError::NotFound)?;
            if found.metadata.resource_version != node.metadata.resource_version {
                return Err(ApiError::Conflict("the version is another".to_owned()));
            }
            state.stamp(&mut node.metadata, false);
            state.csi_nodes.insert(name, node.clone());
            Ok(node)
        };
        self.call(NodeAsk::UpdateCsiNode, None, update).await
    }
}
