//! A node that starts before its runtime has a pod network.

use anyhow::{Result, ensure};

use crate::cluster_node::{ClusterNode, PODS, condition, pod};
use crate::containerd;
use crate::node::{NODE_NAME, PATIENCE};

/// The runtime's message, as agents report it.
const WHY: &str = "container runtime network not ready: NetworkReady=false \
    reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized";

/// The node reports why it is not ready and runs pods with the host's network; with a network it becomes ready.
pub(super) fn network(cluster: &ClusterNode) -> Result<()> {
    // Upstream may take minutes to see its own node.
    let path = format!("/api/v1/nodes/{NODE_NAME}");
    let waited =
        cluster.api().wait(&path, "the node reports why it is not ready", 5 * PATIENCE, |node| {
            let ready = condition(node?, "Ready");
            let is_unready = ready["status"] == "False" && ready["reason"] == "KubeletNotReady";
            (is_unready && ready["message"] == WHY).then_some(())
        });
    cluster.node().explained(waited)?;
    let mut host = pod("with-hosts", &["sleep", "forever"]);
    host["spec"]["hostNetwork"] = true.into();
    cluster.make_pod("with-own", &["sleep", "forever"])?;
    cluster.api().create(PODS, &host)?;
    cluster.wait_ready(&ClusterNode::pod_path("with-hosts"))?;
    let host = cluster.running("with-hosts")?;

    let event = cluster.wait_for_event("with-own", "NetworkNotReady", WHY)?;
    ensure!(event["message"] == format!("network is not ready: {WHY}"), "{event}");
    ensure!(event["type"] == "Warning", "{event}");
    let path = ClusterNode::pod_path("with-own");
    let waits = cluster.wait_for(&path, "it waits", |pod| {
        let state = &pod?["status"]["containerStatuses"][0]["state"]["waiting"]["reason"];
        (state == "ContainerCreating").then(|| pod.cloned())?
    })?;
    ensure!(waits["status"]["phase"] == "Pending", "{waits}");
    let made = containerd::containers(cluster.node().instance())?;
    ensure!(made.iter().all(|one| one.pod != "with-own"), "there is no sandbox: {made:?}");

    cluster.node().instance().give_network()?;
    let ready = cluster.wait_ready(&path)?;
    ensure!(ready["status"]["podIP"].is_string(), "{ready}");
    cluster.wait_node_ready()?;
    ensure!(cluster.running("with-hosts")? == host, "it was changed");
    cluster.remove_pods(&["with-own", "with-hosts"])
}
