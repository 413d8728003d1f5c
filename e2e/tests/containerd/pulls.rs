//! Pulls of real images from a registry.

use anyhow::{Result, ensure};
use e2e::node::Node;
use e2e::registry::Registry;

/// Pods that need the same image at the same time.
const PODS: [&str; 3] = ["a", "b", "c"];

// behaviour: PULL-10
#[test]
fn pods_share_a_pull_and_image_why_shows_it() -> Result<()> {
    let mut node = Node::start()?;
    let registry = Registry::start(node.instance())?;
    let image = registry.image("workload:1");
    node.configure("serializeImagePulls: false\nmaxParallelImagePulls: 3")?;
    for pod in PODS {
        node.write_manifest(
            &format!("{pod}.yaml"),
            &format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: {pod}}}\nspec:\n  containers:\n  \
                 - {{name: main, image: \"{image}\", imagePullPolicy: IfNotPresent, args: [sleep, forever]}}\n"
            ),
        )?;
    }
    node.start_agent()?;
    for pod in PODS {
        node.wait_running(pod)?;
    }
    let requests = registry.requests();
    let manifests = requests.iter().filter(|request| request.contains("/manifests/1"));
    ensure!(manifests.count() == 1, "one pull looks the tag up once: {requests:#?}");
    let why = node.wait_for_answer(&["image", "why", &image], "pulled for container main")?;
    for part in ["it was not present", "without credentials", "exists and is kept"] {
        ensure!(why.contains(part), "no {part:?} in {why}");
    }
    ensure!(why.matches("pulled for container main").count() == 1, "{why}");
    node.stop()
}
