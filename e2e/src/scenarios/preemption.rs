//! A critical pod preempts one of lower priority.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::cluster_node::{ClusterNode, PODS, condition, pod};
use crate::node::Node;

/// The number of the machine's CPUs.
pub(super) fn processors(node: &Node) -> Result<u32> {
    let count = node.run("getconf", &["_NPROCESSORS_ONLN"])?;
    count.trim().parse().context("count the processors")
}

fn requesting(name: &str, cpu: u32) -> Value {
    let mut pod = pod(name, &["sleep", "forever"]);
    let resources = json!({ "requests": { "cpu": format!("{cpu}m") } });
    pod["spec"]["containers"][0]["resources"] = resources;
    pod
}

pub(super) fn preemption(cluster: &ClusterNode) -> Result<()> {
    let api = cluster.api();
    let half = processors(cluster.node())? * 500;
    api.create(PODS, &requesting("lesser", half + 100))?;
    api.create(PODS, &requesting("beside", 10))?;
    for name in ["lesser", "beside"] {
        cluster.wait_ready(&ClusterNode::pod_path(name))?;
    }
    let beside = cluster.running("beside")?;
    let mut critical = requesting("critical", half);
    critical["spec"]["priorityClassName"] = "system-node-critical".into();
    api.create(PODS, &critical)?;
    cluster.wait_ready(&ClusterNode::pod_path("critical"))?;
    let lesser = cluster.wait_over(&ClusterNode::pod_path("lesser"))?;
    cluster.look_at_object(&lesser);
    let status = &lesser["status"];
    ensure!(status["phase"] == "Failed" && status["reason"] == "Preempting", "{status}");
    ensure!(status["message"] == "Preempted in order to admit critical pod", "{status}");
    let target = condition(&lesser, "DisruptionTarget");
    ensure!(target["status"] == "True" && target["reason"] == "TerminationByKubelet", "{status}");
    ensure!(condition(&lesser, "Ready")["status"] == "False", "{status}");
    // The exit of the container stays in the status after the container is removed.
    let container = &status["containerStatuses"][0];
    let ended = &container["state"]["terminated"];
    ensure!(ended["exitCode"] == 143 && ended["reason"] == "Error", "{status}");
    ensure!(container["restartCount"] == 0, "{status}");
    let event = cluster.wait_for_event("lesser", "Preempting", "critical pod")?;
    ensure!(event["type"] == "Warning", "{event}");
    ensure!(cluster.containers("lesser")?.iter().all(|one| !one.is_alive()), "it still runs");
    ensure!(cluster.running("beside")? == beside, "it was changed");
    cluster.remove_pods(&["critical", "beside", "lesser"])
}
