//! Volumes with both agents: the same files on disk, even after one agent has replaced the other.

mod kills;
mod kinds;
mod many;
mod orphans;

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::agent::Agent;
use e2e::api::Patch;
use e2e::cluster_node::{ClusterNode, NAMESPACE, PODS, pod};
use e2e::container_files::ContainerFiles;
use e2e::differences::{KnownDifference, differences, leaves};
use e2e::volume_pods::{VolumePod, volume_pods};
use serde_json::{Value, json};
use testbed::{ControlPlaneOptions, Options, wait};

/// The timeout of an update: upstream writes it with the next sync of the pod.
const UPDATE: Duration = Duration::from_mins(3);

/// Accepted differences between our volumes and upstream's.
const KNOWN: &[KnownDifference] = &[];

fn layouts(agent: Agent) -> Result<Value> {
    let options = ControlPlaneOptions::default();
    let mut cluster = ClusterNode::start_with(&Options::default(), &options, agent)?;
    cluster.start_agent()?;
    cluster.wait_node_ready()?;
    let pods = volume_pods(&cluster.make_volume_sources()?);
    cluster.make_volume_pods(&pods)?;
    let mut all = json!({});
    for pod in &pods {
        all[pod.name] = cluster.volume_layout(pod.name).with_context(|| pod.name)?;
    }
    cluster.remove_volume_pods(&pods)?;
    cluster.stop()?;
    Ok(all)
}

#[test]
fn twenty_five_pods_have_the_same_files_and_mounts_with_both_agents() -> Result<()> {
    let [ours, upstream] = thread::scope(|threads| {
        let plays = [Agent::Ferrolet, Agent::Upstream]
            .map(|agent| threads.spawn(move || layouts(agent).with_context(|| agent.name())));
        plays.map(|played| played.join().expect("a run does not panic"))
    });
    let (ours, upstream) = (leaves(&ours?), leaves(&upstream?));
    println!("{} values of ours and {} of upstream's compared", ours.len(), upstream.len());
    ensure!(ours.len() > 500, "only {} values were compared", ours.len());
    let found = differences(&ours, &upstream, KNOWN);
    ensure!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
    Ok(())
}

/// The identity of the volumes of each pod.
fn identities(cluster: &ClusterNode, pods: &[VolumePod]) -> Result<Vec<Vec<String>>> {
    pods.iter().map(|pod| cluster.volume_identity(pod.name).context(pod.name)).collect()
}

fn ensure_untouched(
    cluster: &ClusterNode,
    pods: &[VolumePod],
    before: &[Vec<String>],
) -> Result<()> {
    for ((pod, before), now) in pods.iter().zip(before).zip(identities(cluster, pods)?) {
        let lost: Vec<_> = before.iter().filter(|line| !now.contains(line)).collect();
        let new: Vec<_> = now.iter().filter(|line| !before.contains(line)).collect();
        let is_same = lost.is_empty() && new.is_empty();
        ensure!(is_same, "{}: lost {lost:#?}, new {new:#?}", pod.name);
    }
    Ok(())
}

/// Creates a pod: its readiness shows that the agent watches the API and acts.
fn agent_acts(cluster: &ClusterNode, name: &str) -> Result<()> {
    cluster.api().create(PODS, &pod(name, &["sleep", "forever"]))?;
    cluster.wait_ready_at_last(&ClusterNode::pod_path(name)).map(drop)
}

fn change_is_followed(cluster: &ClusterNode, colour: &str, pods: &[&str]) -> Result<()> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/settings");
    cluster.api().patch(&path, Patch::Merge, &json!({ "data": { "colour": colour } }))?;
    for pod in pods {
        let files = ContainerFiles::of(cluster.node(), cluster.running(pod)?.pid);
        let what = format!("/v/colour of {pod} is {colour}");
        cluster.node().explained(wait::until(&what, UPDATE, || {
            let found = files.read("/v/colour")?;
            Ok(if found == colour { Ok(()) } else { Err(found) })
        }))?;
    }
    Ok(())
}

#[test]
fn volumes_stay_unchanged_when_the_agents_replace_each_other() -> Result<()> {
    let mut cluster = ClusterNode::start(&ControlPlaneOptions::default())?;
    // Upstream may look up its own node before it has created it, and then takes minutes to look again: here it finds
    // one.
    cluster.start_agent()?;
    cluster.wait_node_ready()?;
    cluster.hand_over_to(Agent::Upstream)?;
    let mut pods = volume_pods(&cluster.make_volume_sources()?);
    cluster.make_volume_pods(&pods)?;
    let before = identities(&cluster, &pods)?;

    cluster.hand_over_to(Agent::Ferrolet)?;
    agent_acts(&cluster, "second")?;
    ensure_untouched(&cluster, &pods, &before).context("after our agent took over")?;
    change_is_followed(&cluster, "green", &["config", "projected", "nested"])?;
    // Every second pod ends with our agent, the others with upstream's.
    let (mut removed, mut left) = (Vec::new(), Vec::new());
    for (number, pod) in pods.drain(..).enumerate() {
        if number % 2 == 0 { removed.push(pod) } else { left.push(pod) }
    }
    cluster.remove_volume_pods(&removed)?;

    let before = identities(&cluster, &left)?;
    cluster.hand_over_to(Agent::Upstream)?;
    agent_acts(&cluster, "third")?;
    ensure_untouched(&cluster, &left, &before).context("after upstream took over")?;
    cluster.remove_volume_pods(&left)?;
    cluster.remove_pods(&["second", "third"])?;
    cluster.stop()
}
