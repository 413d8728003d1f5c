//! The Node object is deleted while the agent runs.

use anyhow::{Context, Result, ensure};
use e2e::cluster_node::{ClusterNode, condition};
use e2e::node::NODE_NAME;
use e2e::plane::with_controllers;
use e2e::scenarios::MANIFEST;
use serde_json::Value;

fn owner(object: &Value) -> &Value {
    &object["metadata"]["ownerReferences"][0]["uid"]
}

#[test]
fn deleted_node_registers_again_and_its_pods_keep_running() -> Result<()> {
    // The garbage collector deletes what the former node owned: the lease, and mirror pods.
    let mut cluster = ClusterNode::start(&with_controllers(&["garbage-collector-controller"]))?;
    cluster.node().write_manifest("fixed.yaml", MANIFEST)?;
    cluster.start_agent()?;
    cluster.make_pod("web", &["sleep", "forever"])?;
    cluster.wait_ready(&ClusterNode::pod_path("web"))?;
    let mirror = format!("/api/v1/namespaces/default/pods/fixed-{NODE_NAME}");
    cluster.wait_ready(&mirror)?;
    let (web, fixed) = (cluster.running("web")?, cluster.node().wait_running("fixed")?);

    let path = format!("/api/v1/nodes/{NODE_NAME}");
    let former = cluster.api().get(&path)?.context("there is a node")?["metadata"]["uid"].clone();
    cluster.api().delete(&path)?;
    let node = cluster.wait_for(&path, "there is another node, and it is ready", |node| {
        let node = node.filter(|node| node["metadata"]["uid"] != former)?;
        (condition(node, "Ready")["status"] == "True").then(|| node.clone())
    })?;
    let uid = &node["metadata"]["uid"];
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    for (what, path) in [("lease", &format!("{leases}/{NODE_NAME}")), ("mirror", &mirror)] {
        cluster.wait_for(path, &format!("the {what} is that of the new node"), |object| {
            (owner(object?) == uid).then_some(())
        })?;
    }
    cluster.wait_ready(&mirror)?;

    // It runs a new pod, and earlier pods were not touched.
    cluster.make_pod("late", &["sleep", "forever"])?;
    cluster.wait_ready(&ClusterNode::pod_path("late"))?;
    ensure!(cluster.running("web")?.id == web.id, "it was restarted");
    ensure!(cluster.node().wait_running("fixed")?.id == fixed.id, "it was restarted");
    cluster.remove_pods(&["web", "late"])?;
    cluster.stop()
}
