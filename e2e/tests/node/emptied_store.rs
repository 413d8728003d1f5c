//! The cluster's store is emptied while the agent runs.

use anyhow::{Result, ensure};
use e2e::api::Patch;
use e2e::cluster_node::{ClusterNode, NAMESPACE};
use e2e::node::{NODE_NAME, PATIENCE};
use e2e::scenarios::MANIFEST;
use e2e::tidy::{WantedPod, wait_tidy};
use serde_json::json;
use testbed::ControlPlaneOptions;

/// The number of writes in the first store beyond those in the second: the agent must not wait for the second to reach
/// it.
const AHEAD: usize = 300;

// behaviour: API-15
#[test]
fn node_registers_again_in_an_emptied_cluster_without_its_old_pods() -> Result<()> {
    let mut cluster = ClusterNode::start(&ControlPlaneOptions::default())?;
    cluster.node().write_manifest("fixed.yaml", MANIFEST)?;
    cluster.start_agent()?;
    cluster.make_pod("web", &["sleep", "forever"])?;
    let web = ClusterNode::pod_path("web");
    cluster.wait_ready(&web)?;
    let mirror = format!("/api/v1/namespaces/default/pods/fixed-{NODE_NAME}");
    cluster.wait_ready(&mirror)?;
    let fixed = cluster.node().wait_running("fixed")?;
    for number in 0..AHEAD {
        let change = json!({ "metadata": { "annotations": { "n": number.to_string() } } });
        cluster.api().patch(&web, Patch::Merge, &change)?;
    }

    cluster.lose_everything()?;
    cluster.wait_node_ready()?;
    // The pod of the first life is deleted; the static pod was never in the cluster's store.
    let only = WantedPod { name: "fixed", containers: &["main"] };
    wait_tidy(cluster.node(), &[only], PATIENCE)?;
    ensure!(cluster.node().wait_running("fixed")?.id == fixed.id, "it was restarted");
    cluster.wait_ready(&mirror)?;

    cluster.make_namespace(NAMESPACE)?;
    cluster.make_pod("web", &["sleep", "forever"])?;
    cluster.wait_ready(&web)?;
    cluster.remove_pod("web")?;
    ensure!(cluster.node().wait_running("fixed")?.id == fixed.id, "it was restarted");
    cluster.stop()
}
