//! Pulls of real images from a registry.

use anyhow::{Result, ensure};
use e2e::node::{Node, PATIENCE};
use e2e::registry::Registry;
use testbed::wait;

/// Pods that need the same image at the same time.
const PODS: [&str; 3] = ["a", "b", "c"];

// behaviour: PULL-10
#[test]
fn pods_share_a_pull_and_image_why_shows_it() -> Result<()> {
    let mut node = Node::start()?;
    let proxy = node.put_proxy_before_runtime()?;
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
    // The pull of the small image would end before the last pod needs it.
    proxy.fault("PullImage=hang times=all")?;
    node.start_agent()?;
    node.explained(wait::until("all pods wait for the pull", PATIENCE, || {
        let table = node.ferrolet(&["get", "pods"]).unwrap_or_default();
        let waiting = table.matches("ContainerCreating (pulling").count();
        Ok(if waiting == PODS.len() { Ok(()) } else { Err(table) })
    }))?;
    proxy.clear()?;
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
