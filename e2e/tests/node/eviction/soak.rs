//! Evictions for other signals and limits.

use anyhow::{Result, ensure};
use e2e::cluster_node::{ClusterNode, PODS, condition, pod};
use serde_json::json;
use testbed::ControlPlaneOptions;

use super::{MIB, machine_memory, modest, wait_evicted, wait_pressure};

/// The size of the disk of the agent's root directory.
const ROOT_DISK: u64 = 64 * MIB;

/// Puts the root directory of the agent on a small disk of its own.
fn put_root_on_a_small_disk(cluster: &ClusterNode) -> Result<()> {
    let root = cluster.node().root_dir().display().to_string();
    let image = cluster.node().instance().dir().join("root.img").display().to_string();
    cluster.node().run("mkdir", &["-p", &root])?;
    cluster.node().run("truncate", &["-s", &ROOT_DISK.to_string(), &image])?;
    let options = ["-q", "-F", "-m", "0", "-O", "^has_journal", &image];
    cluster.node().run("mkfs.ext4", &options)?;
    cluster.node().run("mount", &["-o", "loop", &image, &root])?;
    Ok(())
}

/// A pod that fills a volume in the root directory.
fn filling(name: &str, mebibytes: &str, size_limit: Option<&str>) -> serde_json::Value {
    let mut pod = pod(name, &["fill", "/cache/data", mebibytes]);
    let mut empty_dir = json!({});
    if let Some(limit) = size_limit {
        empty_dir["sizeLimit"] = limit.into();
    }
    pod["spec"]["volumes"] = json!([{ "name": "cache", "emptyDir": empty_dir }]);
    let mounts = json!([{ "name": "cache", "mountPath": "/cache" }]);
    pod["spec"]["containers"][0]["volumeMounts"] = mounts;
    pod
}

#[test]
fn pod_that_fills_the_disk_of_the_root_directory_is_evicted() -> Result<()> {
    let mut cluster = ClusterNode::start(&ControlPlaneOptions::default())?;
    put_root_on_a_small_disk(&cluster)?;
    cluster.set_thresholds(
        "evictionHard: {memory.available: 1Mi, nodefs.available: 30%}\n\
         evictionPressureTransitionPeriod: 2s\nvolumeStatsAggPeriod: 5s\n",
    )?;
    cluster.start_agent()?;
    cluster.wait_node_ready()?;
    cluster.api().create(PODS, &modest("modest"))?;
    cluster.wait_ready(&ClusterNode::pod_path("modest"))?;
    cluster.api().create(PODS, &filling("greedy", "45", None))?;
    wait_evicted(&cluster, "greedy", "The node was low on resource: ephemeral-storage. ")?;
    wait_pressure(&cluster, "DiskPressure", "False")?;
    cluster.running("modest")?;
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
