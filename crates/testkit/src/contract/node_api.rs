//! The contract of an API server for the node's own objects, for the user of the node.

use anyhow::{Context as _, Result, bail, ensure};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::{CSINode, CSINodeSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use model::ports::cluster::{ApiError, Change, Sink};
use model::ports::node_api::{CsiNodes, NODE_LEASES, NodeApi, NodeLeases};
use serde_json::{Value, json};
use tokio::sync::mpsc;

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

fn seen(node: &Node) -> Result<Value> {
    Ok(serde_json::to_value(node)?)
}

fn is_conflict<T>(answer: &Result<T, ApiError>) -> bool {
    matches!(answer, Err(ApiError::Conflict(_)))
}

fn first_patch(uid: &str) -> Value {
    json!({
        "metadata": { "uid": uid, "labels": { "a": null, "b": "2" } },
        "status": {
            "capacity": { "cpu": "2", "example.com/x": "1" },
            "conditions": [
                { "type": "Other", "status": "True", "reason": "theirs" },
                { "type": "Ready", "status": "True", "reason": "one", "message": "m" },
            ],
            "addresses": [
                { "type": "InternalIP", "address": "10.0.0.1" },
                { "type": "Hostname", "address": "n" },
            ],
            "images": [{ "names": ["a:1"], "sizeBytes": 1 }, { "names": ["b:1"], "sizeBytes": 2 }],
        },
    })
}

fn second_patch(uid: &str) -> Value {
    json!({
        "metadata": { "uid": uid },
        "status": {
            "capacity": { "example.com/x": null, "memory": "1Ki" },
            "conditions": [{ "type": "Ready", "status": "False", "reason": "two" }],
            "addresses": [
                { "type": "InternalIP", "address": "10.0.0.2" },
                { "type": "InternalIP", "address": "fd00::2" },
                { "$patch": "replace" },
            ],
            "images": [{ "names": ["c:1"], "sizeBytes": 3 }],
        },
    })
}

/// Checks the calls for a node that does not exist yet.
pub async fn node_contract(api: &dyn NodeApi, name: &str) -> Result<()> {
    ensure!(api.own_node(name).await?.is_none(), "the node exists before its creation");
    let patch = |body: Value| api.patch_node_status(name, body.to_string());
    let missing = patch(json!({ "status": {} })).await;
    ensure!(matches!(missing, Err(ApiError::NotFound)), "{missing:?}");
    let mut node = Node { metadata: named(name), ..Node::default() };
    node.metadata.labels = Some([("a".to_owned(), "1".to_owned())].into());
    let made = api.create_node(&node).await?;
    let uid = made.metadata.uid.clone().context("a uid")?;
    ensure!(made.metadata.resource_version.is_some(), "{made:?}");
    let again = api.create_node(&node).await;
    ensure!(is_conflict(&again), "{again:?}");

    patch(first_patch(&uid)).await?;
    let answered = seen(&patch(second_patch(&uid)).await?)?;
    let found = seen(&api.own_node(name).await?.context("the node")?)?;
    ensure!(answered["status"] == found["status"], "{answered} is not {found}");
    let status = &found["status"];
    ensure!(found["metadata"]["labels"] == json!({ "b": "2" }), "{found}");
    ensure!(status["capacity"] == json!({ "cpu": "2", "memory": "1Ki" }), "{status}");
    let ready = status["conditions"].as_array().into_iter().flatten();
    let reasons: Vec<&str> = ready.filter_map(|one| one["reason"].as_str()).collect();
    ensure!(reasons == ["theirs", "two"] || reasons == ["two", "theirs"], "{status}");
    let addresses = json!([
        { "type": "InternalIP", "address": "10.0.0.2" },
        { "type": "InternalIP", "address": "fd00::2" },
    ]);
    ensure!(status["addresses"] == addresses, "{status}");
    ensure!(status["images"].as_array().is_some_and(|all| all.len() == 1), "{status}");
    let other = json!({ "metadata": { "uid": "another" }, "status": { "images": [] } });
    let other = patch(other).await;
    ensure!(is_conflict(&other), "{other:?}");
    follow_contract(api, name).await
}

#[derive(Debug)]
struct ChangeSender(mpsc::UnboundedSender<Change<Node, ()>>);

impl Sink<Node, ()> for ChangeSender {
    fn receive(&self, change: Change<Node, ()>) {
        // The receiver is dropped at the end of the case.
        drop(self.0.send(change));
    }
}

/// A watch sends the existing node, and then its changes.
async fn follow_contract(api: &dyn NodeApi, name: &str) -> Result<()> {
    let (sender, mut changes) = mpsc::unbounded_channel();
    let sink = ChangeSender(sender);
    let changes = async {
        let mut is_complete = false;
        loop {
            match changes.recv().await.context("the watch ended")? {
                Change::Applied(node) if node.metadata.name.as_deref() != Some(name) => {
                    bail!("{:?} is not this node", node.metadata.name)
                }
                Change::Applied(node) if is_complete => {
                    let labels = node.metadata.labels.unwrap_or_default();
                    if labels.get("b").is_some_and(|value| value == "3") {
                        return Ok(());
                    }
                }
                Change::Complete => {
                    is_complete = true;
                    let patch = json!({ "metadata": { "labels": { "b": "3" } } });
                    api.patch_node_status(name, patch.to_string()).await?;
                }
                _ => {}
            }
        }
    };
    tokio::select! {
        biased;
        () = api.follow_own_node(name, &sink) => bail!("the watch ended"),
        outcome = changes => outcome,
        () = tokio::time::sleep(std::time::Duration::from_secs(30)) => bail!("no change arrived"),
    }
}

/// Checks the calls for a lease that does not exist yet.
pub async fn lease_contract(leases: &dyn NodeLeases, name: &str) -> Result<()> {
    ensure!(leases.node_lease(name).await?.is_none(), "the lease exists before its creation");
    let renewed = MicroTime(Timestamp::constant(1_767_225_600, 123_456_000));
    let mut lease = Lease { metadata: named(name), ..Lease::default() };
    lease.metadata.namespace = Some(NODE_LEASES.to_owned());
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(name.to_owned()),
        lease_duration_seconds: Some(40),
        renew_time: Some(renewed.clone()),
        ..LeaseSpec::default()
    });
    let made = leases.create_node_lease(&lease).await?;
    ensure!(made.spec == lease.spec, "{made:?}");
    let again = leases.create_node_lease(&lease).await;
    ensure!(is_conflict(&again), "{again:?}");
    let mut later = made.clone();
    if let Some(spec) = &mut later.spec {
        spec.lease_duration_seconds = Some(20);
    }
    let written = leases.update_node_lease(&later).await?;
    ensure!(written.metadata.uid == made.metadata.uid, "{written:?}");
    ensure!(leases.node_lease(name).await?.as_ref() == Some(&written), "{written:?}");
    let stale = leases.update_node_lease(&later).await;
    ensure!(is_conflict(&stale), "{stale:?}");
    Ok(())
}

/// Checks the calls for a CSI node that does not exist yet.
pub async fn csi_node_contract(api: &dyn CsiNodes, name: &str) -> Result<()> {
    ensure!(api.csi_node(name).await?.is_none(), "the CSI node exists before its creation");
    let owner = |uid: &str| OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    };
    let mut node = CSINode { metadata: named(name), spec: CSINodeSpec { drivers: Vec::new() } };
    node.metadata.owner_references = Some(vec![owner("00000000-0000-4000-8000-00000000000a")]);
    let made = api.create_csi_node(&node).await?;
    ensure!(made.spec == node.spec, "{made:?}");
    let again = api.create_csi_node(&node).await;
    ensure!(is_conflict(&again), "{again:?}");
    let mut later = made.clone();
    later.metadata.owner_references = Some(vec![owner("00000000-0000-4000-8000-00000000000b")]);
    let written = api.update_csi_node(&later).await?;
    ensure!(written.metadata.uid == made.metadata.uid, "{written:?}");
    ensure!(written.metadata.owner_references == later.metadata.owner_references, "{written:?}");
    ensure!(api.csi_node(name).await?.as_ref() == Some(&written), "{written:?}");
    let stale = api.update_csi_node(&later).await;
    ensure!(is_conflict(&stale), "{stale:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::node_api::MemoryNodeApi;

    #[tokio::test(start_paused = true)]
    async fn memory_nodes_pass_the_contract() {
        let api = MemoryNodeApi::default();
        node_contract(&api, "n").await.unwrap();
        lease_contract(&api, "n").await.unwrap();
        csi_node_contract(&api, "n").await.unwrap();
    }
}
