//! Evictions for other signals and limits.

use anyhow::{Result, ensure};
use e2e::agent::Agent;
use e2e::cluster_node::{ClusterNode, PODS, condition};
use testbed::{ControlPlaneOptions, Options};

use super::{MIB, filling, machine_memory, modest, wait_evicted, wait_pressure};

/// The disk of images and writable layers.
const IMAGE_DISK: u64 = 160 * MIB;

#[test]
fn pod_that_fills_the_image_disk_is_evicted() -> Result<()> {
    let options = Options { containerd_disk: Some(IMAGE_DISK), ..Options::default() };
    let control_plane = ControlPlaneOptions::default();
    let mut cluster = ClusterNode::start_with(&options, &control_plane, Agent::Ferrolet)?;
    cluster.set_thresholds(
        "evictionHard: {memory.available: 1Mi, nodefs.available: 1%, imagefs.available: 50Mi}\n\
         evictionPressureTransitionPeriod: 2s\n",
    )?;
    cluster.start_agent()?;
    cluster.wait_node_ready()?;
    cluster.api().create(PODS, &modest("modest"))?;
    cluster.wait_ready(&ClusterNode::pod_path("modest"))?;
    let container = cluster.running("modest")?;
    cluster.make_pod("greedy", &["fill", "/data", "100"])?;
    let message = "The node was low on resource: ephemeral-storage. \
                   Threshold quantity: 50Mi, available: ";
    wait_evicted(&cluster, "greedy", message)?;
    cluster.wait_for_node_event("NodeHasDiskPressure", "")?;
    ensure!(cluster.running("modest")?.id == container.id, "the other pod was restarted");
    let why = cluster.node().ferrolet(&["why", "shop/greedy"])?;
    ensure!(why.contains(" evicted: ") && why.contains("first of 2 pods"), "{why}");
    // The space of the evicted pod is free again, and pods are admitted.
    wait_pressure(&cluster, "DiskPressure", "False")?;
    cluster.make_pod("later", &["sleep", "forever"])?;
    cluster.wait_ready(&ClusterNode::pod_path("later"))?;
    cluster.stop()
}

#[test]
fn pod_beyond_the_limit_of_its_volume_is_evicted() -> Result<()> {
    let mut cluster = ClusterNode::start(&ControlPlaneOptions::default())?;
    cluster.set_thresholds(
        "evictionHard: {memory.available: 1Mi, nodefs.available: 1%}\nvolumeStatsAggPeriod: 5s\n",
    )?;
    cluster.start_agent()?;
    cluster.wait_node_ready()?;
    cluster.api().create(PODS, &filling("modest", "5", Some("10Mi")))?;
    cluster.api().create(PODS, &filling("greedy", "20", Some("10Mi")))?;
    let greedy = cluster.wait_over(&ClusterNode::pod_path("greedy"))?;
    let expected = "Usage of EmptyDir volume \"cache\" exceeds the limit \"10Mi\". ";
    ensure!(greedy["status"]["message"] == expected, "{}", greedy["status"]);
    ensure!(greedy["status"]["reason"] == "Evicted", "{}", greedy["status"]);
    ensure!(condition(&greedy, "DisruptionTarget").is_null(), "{}", greedy["status"]);
    cluster.running("modest")?;
    cluster.stop()
}

/// Only with cgroup v1: the kernel notifies when the memory of all pods crosses the threshold.
#[test]
fn notification_of_the_kernel_begins_a_round() -> Result<()> {
    let mut cluster = ClusterNode::start(&ControlPlaneOptions::default())?;
    let reserved = machine_memory()? - 300 * MIB;
    cluster.set_thresholds(&format!(
        "evictionHard: {{memory.available: 100Mi, nodefs.available: 1%}}\n\
         kubeReserved: {{memory: \"{reserved}\"}}\nkernelMemcgNotification: true\n"
    ))?;
    cluster.start_agent()?;
    cluster.wait_node_ready()?;
    if !cluster.node().exists("/sys/fs/cgroup/memory/memory.usage_in_bytes")? {
        println!("no cgroup v1 on this machine");
        return cluster.stop();
    }
    cluster.make_pod("greedy", &["hold", "230"])?;
    wait_evicted(&cluster, "greedy", "The node was low on resource: memory. ")?;
    cluster.node().wait_for_log(&["memory usage crossed the threshold"])?;
    cluster.stop()
}
