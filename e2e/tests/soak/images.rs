//! Pulls from a registry on loopback: many at once, and one during which the agent is killed.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::agent::Agent;
use e2e::cluster_node::{ClusterNode, PODS};
use e2e::containerd;
use e2e::node::{NODE_NAME, Node, PATIENCE};
use e2e::private_image::{create_pull_secret, private_pod, wait_refused};
use e2e::registry::Registry;
use testbed::{Cache, ControlPlaneOptions, wait};

const IMAGES: usize = 20;
const POD_COUNT: usize = 50;
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
    for number in 0..POD_COUNT {
        let image = registry.image(&format!("fleet-{}:1", number % IMAGES));
        write_pod(&node, &format!("pod-{number}"), &image)?;
    }
    node.start_agent()?;
    node.explained(wait::until("all pods run", STARTED, || {
        let mut running = containerd::containers(node.instance())?;
        running.retain(|one| one.name == "main" && one.state == "RUNNING");
        Ok(if running.len() == POD_COUNT { Ok(()) } else { Err(format!("{} run", running.len())) })
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

const LOGIN: &str = "robot:hunter2";
/// The same in base64, as `docker login` writes it.
const AUTH: &str = "cm9ib3Q6aHVudGVyMg==";
/// That of another password.
const WRONG_AUTH: &str = "cm9ib3Q6d3Jvbmc=";

fn write_config(node: &Node, registry: &Registry, auth: &str) -> Result<()> {
    let config = format!(r#"{{"auths": {{"{}": {{"auth": "{auth}"}}}}}}"#, registry.address());
    fs::write(node.root_dir().join("config.json"), config).context("write config.json")
}

#[test]
fn private_image_of_a_registry_with_tokens_is_pulled_and_a_wrong_password_is_reported() -> Result<()>
{
    let mut node = Node::start()?;
    let images = write_images(&node, 2, PADDING)?;
    let arguments = ["--login", LOGIN, "--tokens"];
    let registry = Registry::start_with(node.instance(), &images, &arguments)?;
    write_config(&node, &registry, AUTH)?;
    write_pod(&node, "web", &registry.image("fleet-0:1"))?;
    node.start_agent()?;
    node.wait_running("web")?;
    let asked = registry.requests();
    ensure!(asked.iter().any(|request| request == "GET /token 200"), "{asked:?}");
    node.stop_agent()?;

    write_config(&node, &registry, WRONG_AUTH)?;
    node.start_agent()?;
    write_pod(&node, "denied", &registry.image("fleet-1:1"))?;
    node.wait_for_answer(&["describe", "default/denied"], "401 Unauthorized")?;
    node.wait_for_answer(&["describe", "default/denied"], "ImagePullBackOff")?;
    let log = node.agent_log();
    ensure!(!log.contains("hunter2") && !log.contains(AUTH), "a credential is in the log");
    node.stop()
}

#[test]
fn pods_run_when_a_registry_that_fails_recovers() -> Result<()> {
    let mut node = Node::start()?;
    let images = write_images(&node, 4, PADDING)?;
    // containerd repeats requests that are answered 429, and gives up a pull after some.
    let faults = ["fleet-0=429*20", "fleet-1=500*8", "fleet-2=cut*2"];
    let arguments: Vec<&str> = faults.iter().flat_map(|fault| ["--fault", *fault]).collect();
    let registry = Registry::start_with(node.instance(), &images, &arguments)?;
    node.configure("serializeImagePulls: false\nregistryPullQPS: 0")?;
    for number in 0..4 {
        write_pod(&node, &format!("pod-{number}"), &registry.image(&format!("fleet-{number}:1")))?;
    }
    node.start_agent()?;
    // Its registry does not fail.
    node.wait_running("pod-3")?;
    for (pod, problem) in
        [("pod-0", "429 Too Many Requests"), ("pod-1", "500 Internal Server Error")]
    {
        node.wait_for_answer(&["describe", &format!("default/{pod}")], problem)?;
    }
    for number in 0..3 {
        let pod = format!("pod-{number}");
        node.explained(wait::until("a pod runs", STARTED, || {
            let containers = containerd::containers(node.instance())?;
            let runs = containers.iter().any(|one| {
                one.name == "main" && one.state == "RUNNING" && one.pod.starts_with(&pod)
            });
            Ok(if runs { Ok(()) } else { Err(format!("{pod}: {containers:?}")) })
        }))?;
    }
    let asked = registry.requests();
    for status in ["429", "500"] {
        ensure!(asked.iter().any(|request| request.ends_with(status)), "no {status}: {asked:?}");
    }
    node.stop()
}

/// Starts a pod with the pull secret, which needs no transfer, and one without, which is refused.
fn check_access(node: &ClusterNode, registry: &Registry, image: &str, prefix: &str) -> Result<()> {
    let before = registry.requests().len();
    let (owner, other) = (format!("{prefix}-owner"), format!("{prefix}-other"));
    node.api().create(PODS, &private_pod(&owner, image, &["key"]))?;
    node.wait_ready_at_last(&ClusterNode::pod_path(&owner))?;
    node.api().create(PODS, &private_pod(&other, image, &[]))?;
    wait_refused(node, &other)?;
    ensure!(node.containers(&other)?.is_empty(), "{prefix}: the image was used");
    let pulls = registry.requests().split_off(before);
    ensure!(pulls.iter().all(|request| !request.ends_with(" 200")), "{prefix}: {pulls:#?}");
    Ok(())
}

#[test]
fn pull_records_are_honoured_by_the_upstream_kubelet_and_its_records_here() -> Result<()> {
    let mut node = ClusterNode::start(&ControlPlaneOptions::default())?;
    let registry = Registry::start_private(node.node().instance(), LOGIN)?;
    create_pull_secret(&node, &registry, LOGIN)?;
    let (first, second) = (registry.image("workload:1"), registry.image("disposable:1"));
    // Upstream waits for its node otherwise.
    node.start_agent()?;
    node.wait_node_ready()?;
    node.hand_over_to(Agent::Upstream)?;
    node.api().create(PODS, &private_pod("a", &first, &["key"]))?;
    node.wait_ready_at_last(&ClusterNode::pod_path("a"))?;

    node.hand_over_to(Agent::Ferrolet)?;
    check_access(&node, &registry, &first, "first")?;
    node.api().create(PODS, &private_pod("b", &second, &["key"]))?;
    node.wait_ready_at_last(&ClusterNode::pod_path("b"))?;

    node.hand_over_to(Agent::Upstream)?;
    check_access(&node, &registry, &second, "second")?;
    node.remove_pods(&["a", "b", "first-owner", "first-other", "second-owner", "second-other"])?;
    node.stop()
}
