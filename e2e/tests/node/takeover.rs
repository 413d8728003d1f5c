//! Our agent replaces the upstream kubelet on a node, and the other way round.

use anyhow::{Result, ensure};
use e2e::agent::Agent;
use e2e::cluster_node::{ClusterNode, PODS, is_ready, pod};
use e2e::containerd::{self, RuntimeContainer};
use e2e::node::{NODE_NAME, PATIENCE};
use e2e::scenarios::MANIFEST;
use e2e::tidy::{WantedPod, wait_tidy};
use serde_json::{Value, json};
use testbed::ControlPlaneOptions;

/// Fields of the status of a pod. Others may follow later, such as the node's address with upstream.
const OF_POD: [&str; 4] = ["phase", "conditions", "startTime", "podIPs"];

/// Fields of the status of a container.
const OF_CONTAINER: [&str; 5] = ["containerID", "restartCount", "state", "lastState", "ready"];

/// The parts of a pod that must not change: its containers and their status.
#[derive(Debug, PartialEq)]
struct Snapshot {
    /// Its sandbox and its container, with their processes.
    running: Vec<RuntimeContainer>,
    /// With the transition time of each condition, so that a change and its reversal are seen.
    status: Vec<Value>,
}

/// The name of an API pod, formed like that of a static pod.
fn full(name: &str) -> String {
    format!("{name}-{NODE_NAME}")
}

/// Makes a pod with limits and waits until it is ready.
fn make(cluster: &ClusterNode, name: &str) -> Result<Snapshot> {
    let mut pod = pod(&full(name), &["sleep", "forever"]);
    let (requests, limits) = (json!({ "cpu": "50m" }), json!({ "memory": "32Mi" }));
    pod["spec"]["containers"][0]["resources"] = json!({ "requests": requests, "limits": limits });
    cluster.api().create(PODS, &pod)?;
    cluster.wait_ready_at_last(&ClusterNode::pod_path(&full(name)))?;
    look(cluster, name)
}

fn look(cluster: &ClusterNode, name: &str) -> Result<Snapshot> {
    let name = full(name);
    let pod = cluster.wait_ready(&ClusterNode::pod_path(&name))?;
    let mut running = containerd::containers(cluster.node().instance())?;
    running.retain(|one| one.pod == name && one.is_alive());
    ensure!(running.len() == 2, "a sandbox and a container: {running:?}");
    let container = &pod["status"]["containerStatuses"][0];
    let of_pod = OF_POD.map(|part| pod["status"][part].clone());
    let of_container = OF_CONTAINER.map(|part| container[part].clone());
    Ok(Snapshot { running, status: of_pod.into_iter().chain(of_container).collect() })
}

/// Waits until another container of the static pod runs than this one, and its mirror pod has it.
fn started_anew(
    cluster: &ClusterNode,
    former: Option<&RuntimeContainer>,
) -> Result<RuntimeContainer> {
    let what = "another container of the static pod runs";
    let container = cluster.node().wait_for_containers("fixed", what, |all| {
        let mut running = all.iter().filter(|one| one.state == "RUNNING");
        running.find(|one| former.is_none_or(|former| one.id != former.id)).cloned()
    })?;
    let mirror = format!("/api/v1/namespaces/default/pods/{}", full("fixed"));
    cluster.wait_for(&mirror, "the mirror pod has it", |mirror| {
        let status = &mirror?["status"]["containerStatuses"][0];
        let is_reported = status["containerID"] == format!("containerd://{}", container.id);
        (is_ready(mirror?) && is_reported && status["restartCount"] == 0).then_some(())
    })?;
    Ok(container)
}

/// Waits until nothing runs but the static pod and these.
fn nothing_else_runs(cluster: &ClusterNode, pods: &[&str]) -> Result<()> {
    let wanted = pods.iter().chain([&"fixed"]);
    let wanted: Vec<WantedPod<'_>> =
        wanted.map(|name| WantedPod { name, containers: &["main"] }).collect();
    wait_tidy(cluster.node(), &wanted, PATIENCE)
}

fn is_untouched(cluster: &ClusterNode, name: &str, before: &Snapshot) -> Result<()> {
    let now = look(cluster, name)?;
    ensure!(now == *before, "{name}: {before:?} became {now:?}");
    Ok(())
}

// behaviour: API-36
#[test]
fn api_pods_keep_running_when_agent_and_kubelet_replace_each_other() -> Result<()> {
    let mut cluster = ClusterNode::start(&ControlPlaneOptions::default())?;
    // Upstream may look up its own node before it has created it, and then takes minutes to look again: here it finds
    // one.
    cluster.start_agent()?;
    cluster.wait_node_ready()?;
    cluster.hand_over_to(Agent::Upstream)?;
    cluster.node().write_manifest("fixed.yaml", MANIFEST)?;
    let first = make(&cluster, "first")?;
    let fixed = started_anew(&cluster, None)?;

    cluster.hand_over_to(Agent::Ferrolet)?;
    // Its start shows that the next agent watches the API and acts.
    let second = make(&cluster, "second")?;
    let fixed = started_anew(&cluster, Some(&fixed))?;
    nothing_else_runs(&cluster, &["first", "second"])?;
    is_untouched(&cluster, "first", &first)?;

    cluster.hand_over_to(Agent::Upstream)?;
    let third = make(&cluster, "third")?;
    started_anew(&cluster, Some(&fixed))?;
    nothing_else_runs(&cluster, &["first", "second", "third"])?;
    for (name, before) in [("first", &first), ("second", &second), ("third", &third)] {
        is_untouched(&cluster, name, before)?;
    }
    let names = ["first", "second", "third"].map(full);
    cluster.remove_pods(&names.each_ref().map(String::as_str))?;
    cluster.stop()
}
