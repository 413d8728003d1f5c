//! Pulls from a registry on loopback: many at once, and one during which the agent is killed.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::containerd;
use e2e::node::{NODE_NAME, Node, PATIENCE};
use e2e::registry::Registry;
use testbed::{Cache, wait};

const IMAGES: usize = 20;
const PODS: usize = 50;
/// The size of the layer that each image does not share.
const PADDING: usize = 1 << 20;
/// The timeout until all pods run.
const STARTED: Duration = Duration::from_mins(5);

/// The size of an image whose transfer takes six seconds at this pace.
const LARGE: usize = 6 << 20;
/// Bytes in a tenth of a second.
const PACE: &str = "104858";

/// Writes images with the workload that share no other layer, and returns their directory.
fn write_images(node: &Node, count: usize, padding: usize) -> Result<PathBuf> {
    let archive = Cache::from_env()?.parts().images_dir().join("workload-1.tar");
    let archive = fs::read(&archive).with_context(|| format!("read {}", archive.display()))?;
    let executable = test_images::registry::file_in(&archive, "workload")?;
    let executable = executable.context("the image has the workload")?;
    let directory = node.instance().dir().join("images");
    for number in 0..count {
        let name = format!("ferrolet.test/fleet-{number}:1");
        let image = test_images::workload(executable.clone()).named(&name);
        image.padded(padding).write(&directory)?;
    }
    Ok(directory)
}

fn write_pod(node: &Node, name: &str, image: &str) -> Result<()> {
    node.write_manifest(
        &format!("{name}.yaml"),
        &format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  \
             terminationGracePeriodSeconds: 1\n  containers:\n  - {{name: main, image: \"{image}\", \
             imagePullPolicy: IfNotPresent, args: [sleep, forever]}}\n"
        ),
    )
}

/// How often each path was sent with its body. Failed requests are an error.
fn transfers(registry: &Registry) -> Result<BTreeMap<String, usize>> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for request in registry.requests() {
        let words: Vec<&str> = request.split(' ').collect();
        match words[..] {
            // containerd tries TLS first.
            ["?", ..] | ["a", "client", ..] | ["HEAD", _, "200"] => {}
            ["GET", path, "200"] => *counts.entry(path.to_owned()).or_default() += 1,
            _ => anyhow::bail!("a request failed: {request}"),
        }
    }
    Ok(counts)
}

/// How often each blob was sent, by its digest.
fn blobs(transfers: &BTreeMap<String, usize>) -> BTreeMap<&str, usize> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (path, count) in transfers {
        if let Some((_, digest)) = path.split_once("/blobs/") {
            *counts.entry(digest).or_default() += count;
        }
    }
    counts
}

#[test]
fn image_of_many_pods_is_transferred_once() -> Result<()> {
    let mut node = Node::start()?;
    let images = write_images(&node, IMAGES, PADDING)?;
    let registry = Registry::start_with(node.instance(), &images, &[])?;
    node.configure("serializeImagePulls: false\nmaxParallelImagePulls: 10\nregistryPullQPS: 0")?;
    for number in 0..PODS {
        let image = registry.image(&format!("fleet-{}:1", number % IMAGES));
        write_pod(&node, &format!("pod-{number}"), &image)?;
    }
    node.start_agent()?;
    node.explained(wait::until("all pods run", STARTED, || {
        let mut running = containerd::containers(node.instance())?;
        running.retain(|one| one.name == "main" && one.state == "RUNNING");
        Ok(if running.len() == PODS { Ok(()) } else { Err(format!("{} run", running.len())) })
    }))?;
    let transfers = transfers(&registry)?;
    let blobs = blobs(&transfers);
    // The layer with the workload is on the node; the other one and the configuration are not.
    ensure!(blobs.len() >= 2 * IMAGES, "{} blobs were transferred: {transfers:#?}", blobs.len());
    ensure!(blobs.values().all(|count| *count == 1), "a blob was sent twice: {transfers:#?}");
    for number in 0..IMAGES {
        let repository = format!("/fleet-{number}/manifests/");
        let manifests = transfers.iter().filter(|(path, _)| path.contains(&repository));
        let manifests: usize = manifests.map(|(_, count)| count).sum();
        ensure!(manifests == 1, "manifests of image {number}: {manifests}: {transfers:#?}");
    }
    node.stop()
}

/// The downloads that containerd has begun and not finished.
fn unfinished(node: &Node) -> Result<Vec<String>> {
    let output = node.instance().ctr(&["content", "active"])?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(text.lines().skip(1).map(ToOwned::to_owned).collect())
}

#[test]
fn pod_runs_and_nothing_is_left_over_when_the_agent_is_killed_during_its_pull() -> Result<()> {
    let mut node = Node::start()?;
    let images = write_images(&node, 1, LARGE)?;
    let registry = Registry::start_with(node.instance(), &images, &["--pace", PACE])?;
    let image = registry.image("fleet-0:1");
    node.configure("registryPullQPS: 0")?;
    write_pod(&node, "web", &image)?;
    node.start_agent()?;
    node.explained(wait::until("the layer is being transferred", PATIENCE, || {
        let unfinished = unfinished(&node)?;
        let is_so = unfinished.iter().any(|line| line.contains("layer-sha256:"));
        Ok(if is_so { Ok(()) } else { Err(format!("{unfinished:?}")) })
    }))?;
    node.kill_agent()?;
    let containers = containerd::containers(node.instance())?;
    ensure!(containers.iter().all(containerd::RuntimeContainer::is_sandbox), "{containers:?}");

    node.start_agent()?;
    node.wait_running("web")?;
    let why = node.wait_for_answer(&["image", "why", &image], "pulled for container main")?;
    ensure!(why.matches("pulled for container main").count() == 1, "{why}");
    let left = unfinished(&node)?;
    ensure!(left.is_empty(), "{left:?}");
    let containers = containerd::containers(node.instance())?;
    let names: Vec<(&str, &str)> =
        containers.iter().map(|one| (one.pod.as_str(), one.name.as_str())).collect();
    let pod = format!("web-{NODE_NAME}");
    let expected = [(pod.as_str(), ""), (pod.as_str(), "main")];
    ensure!(names.len() == 2 && expected.iter().all(|one| names.contains(one)), "{names:?}");

    node.remove_manifest("web.yaml")?;
    node.explained(wait::until("no container is left", 2 * PATIENCE, || {
        let left = containerd::containers(node.instance())?;
        Ok(if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) })
    }))?;
    node.stop()
}
