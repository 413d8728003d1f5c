//! Pull secrets of the API server, and which pods may use the pulled images.

use anyhow::{Result, ensure};
use e2e::cluster_node::{ClusterNode, PODS};
use e2e::private_image::{create_pull_secret, private_pod, wait_refused};
use e2e::registry::Registry;
use testbed::ControlPlaneOptions;

const LOGIN: &str = "robot:hunter2";

// behaviour: PULL-24, PULL-33
#[test]
fn tenant_without_the_pull_secret_cannot_use_the_private_image_of_another() -> Result<()> {
    let mut node = ClusterNode::start(&ControlPlaneOptions::default())?;
    let registry = Registry::start_private(node.node().instance(), LOGIN)?;
    let image = registry.image("workload:1");
    create_pull_secret(&node, &registry, LOGIN)?;
    node.start_agent()?;
    node.api().create(PODS, &private_pod("owner", &image, &["key"]))?;
    node.wait_ready(&ClusterNode::pod_path("owner"))?;
    node.api().create(PODS, &private_pod("other", &image, &["none"]))?;
    node.wait_for_event("other", "FailedToRetrieveImagePullSecret", "(none)")?;
    wait_refused(&node, "other")?;
    ensure!(node.containers("other")?.is_empty(), "the image was used");
    // The same secret again needs no pull.
    let before = registry.requests().len();
    node.api().create(PODS, &private_pod("second", &image, &["key"]))?;
    node.wait_ready(&ClusterNode::pod_path("second"))?;
    let pulls = registry.requests().split_off(before);
    ensure!(pulls.iter().all(|request| request.ends_with(" 401")), "{pulls:#?}");
    node.remove_pods(&["owner", "other", "second"])?;
    node.stop()
}
