//! Events of failed garbage collection in the cluster.

use anyhow::{Result, ensure};
use e2e::cluster_node::ClusterNode;
use e2e::node::NODE_NAME;
use testbed::ControlPlaneOptions;

#[test]
fn failed_garbage_collection_is_an_event_of_the_node() -> Result<()> {
    let mut cluster = ClusterNode::start(&ControlPlaneOptions::default())?;
    // The disk is above its threshold at any usage, and no image is old enough.
    let thresholds = ["--image-gc-high-threshold=1", "--image-gc-low-threshold=0"];
    cluster.start_agent_with_flags(&thresholds)?;
    cluster.wait_node_ready()?;
    let too_full = cluster.wait_for_node_event("FreeDiskSpaceFailed", "(freed 0 bytes)")?;
    cluster.node().run("rm", &["-r", "/var/log/pods"])?;
    let run = cluster.node().ferrolet(&["gc", "run"]);
    ensure!(run.is_err(), "{run:?}");
    let failed = cluster.wait_for_node_event("ContainerGCFailed", "podLogsDirectory")?;
    for event in [too_full, failed] {
        ensure!(event["type"] == "Warning" && event["source"]["host"] == NODE_NAME, "{event:#}");
        ensure!(event["involvedObject"]["kind"] == "Node", "{event:#}");
    }
    cluster.stop()
}
