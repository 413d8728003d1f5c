//! The node object and the lease, on a real API server with the Node authorizer and `NodeRestriction`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use config::{GoDuration, KubeletConfiguration, Taint, TaintEffect};
use e2e::api::{Api, Patch};
use e2e::cluster::Cluster;
use e2e::node::PATIENCE;
use e2e::plane::with_controllers;
use model::ports::runtime::Runtime;
use serde_json::{Value, json};
use testbed::{ControlPlaneOptions, User};
use testkit::clock::VirtualClock;
use testkit::contract::node_api::{csi_node_contract, lease_contract, node_contract};
use testkit::runtime::MemoryRuntime;

use crate::our_node::{NodeUser, OurNode, api_server};

const NODE: &str = "/api/v1/nodes/ours";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/ours";

fn runtime() -> Result<tokio::runtime::Runtime> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.context("start a runtime")
}

fn condition<'a>(node: &'a Value, kind: &str) -> Option<&'a Value> {
    node["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

fn is_ready(node: &Value) -> bool {
    condition(node, "Ready").is_some_and(|ready| ready["status"] == "True")
}

fn ready_node(api: &Api, time: Duration) -> Result<Value> {
    api.wait(NODE, "the node is ready", time, |node| node.filter(|node| is_ready(node)).cloned())
}

fn taints(node: &Value) -> Vec<&str> {
    let all = node["spec"]["taints"].as_array().into_iter().flatten();
    all.filter_map(|taint| taint["key"].as_str()).collect()
}

/// Waits until the node owns the lease.
fn owned_lease(api: &Api, node: &Value) -> Result<Value> {
    api.wait(LEASE, "the lease is the node's", PATIENCE, |lease| {
        let owner = &lease?["metadata"]["ownerReferences"][0];
        (owner["uid"] == node["metadata"]["uid"]).then(|| lease.cloned())?
    })
}

#[test]
fn real_api_server_passes_the_contract_of_node_objects() -> Result<()> {
    let cluster = Cluster::start(&ControlPlaneOptions::default())?;
    let kubeconfig = cluster.kubeconfig(&User::node("contract"))?;
    runtime()?.block_on(async {
        let server = api_server(&kubeconfig).await?;
        node_contract(&server, "contract").await?;
        lease_contract(&server, "contract").await?;
        csi_node_contract(&server, "contract").await
    })?;
    cluster.stop()
}

fn others_words_stay_and_ours_come_back(api: &Api) -> Result<()> {
    let others = json!({ "status": {
        "conditions": [
            { "type": "Ready", "status": "Unknown", "reason": "Test" },
            { "type": "Theirs", "status": "True", "reason": "Test" },
        ],
        "capacity": { "example.com/dongle": "3" },
    }});
    api.patch(&format!("{NODE}/status"), Patch::Strategic, &others)?;
    api.wait(NODE, "the node is ready again", PATIENCE, |node| {
        let node = node.filter(|node| is_ready(node))?;
        (node["status"]["allocatable"]["example.com/dongle"] == "3").then_some(())?;
        condition(node, "Theirs").map(drop)
    })
}

fn is_made_again(api: &Api, node: &Value) -> Result<()> {
    api.delete(NODE)?;
    let again = api.wait(NODE, "the node is created again", PATIENCE, |found| {
        let found = found.filter(|found| is_ready(found))?;
        (found["metadata"]["uid"] != node["metadata"]["uid"]).then(|| found.clone())
    })?;
    owned_lease(api, &again).map(drop)
}

#[test]
fn node_registers_again_after_deletion_and_loss_of_the_cluster() -> Result<()> {
    let options = with_controllers(&["node-lifecycle-controller"]);
    let mut cluster = Cluster::start(&options)?;
    let kubeconfig = cluster.kubeconfig(&User::node("ours"))?;
    let config = KubeletConfiguration {
        register_with_taints: vec![Taint {
            key: "example.com/held".to_owned(),
            value: String::new(),
            effect: Some(TaintEffect::NoSchedule),
            time_added: None,
        }],
        // The status and the lease are written every 2 s instead of every 10 s.
        node_status_update_frequency: GoDuration::from_secs(2),
        node_lease_duration_seconds: 8,
        ..KubeletConfiguration::default()
    };
    let root = cluster.instance().dir().to_owned();
    let who = NodeUser {
        name: "ours",
        address: cluster.instance().node_ip().to_string(),
        root: &root,
        labels: &[("example.com/rack", "7"), ("node.kubernetes.io/pool", "a")],
    };
    let clock = Arc::new(VirtualClock::starting_at(jiff::Timestamp::now()));
    let container_runtime = Runtime::new(Arc::new(MemoryRuntime::new(clock)));
    let runtime = runtime()?;
    let begin = Instant::now();
    let ours = runtime.block_on(OurNode::start(&kubeconfig, &who, &config, container_runtime))?;
    let node = ready_node(cluster.api(), PATIENCE)?;
    eprintln!("ready after {:?}", begin.elapsed());
    let labels = &node["metadata"]["labels"];
    ensure!(labels["example.com/rack"] == "7" && labels["kubernetes.io/os"] == "linux", "{labels}");
    ensure!(node["status"]["nodeInfo"]["kubeletVersion"] == "v1.36.3+ferrolet.0.1.0", "{node}");
    owned_lease(cluster.api(), &node)?;
    // The node loses the taint that the API server gives every new node, and keeps the configured one.
    cluster.api().wait(NODE, "one taint is left", PATIENCE, |node| {
        (taints(node?) == ["example.com/held"]).then_some(())
    })?;

    others_words_stay_and_ours_come_back(cluster.api())?;
    is_made_again(cluster.api(), &node)?;
    cluster.lose_everything()?;
    let begin = Instant::now();
    let new = ready_node(cluster.api(), PATIENCE)?;
    owned_lease(cluster.api(), &new)?;
    eprintln!("there again {:?} after the API server was", begin.elapsed());
    ensure!(ours.handle.node().is_some(), "the cached node follows the watch");
    let reasons: Vec<&str> = ours.events.all().iter().map(|event| event.reason).collect();
    ensure!(
        reasons.contains(&"NodeReady") && reasons.contains(&"NodeHasSufficientMemory"),
        "{reasons:?}"
    );
    drop(ours);
    cluster.stop()
}
