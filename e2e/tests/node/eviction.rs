//! Evictions on a real node: a full disk, and memory that all pods share.

mod soak;

use std::fs;

use anyhow::{Context, Result, ensure};
use e2e::cluster_node::{ClusterNode, PODS, condition, pod};
use e2e::node::NODE_NAME;
use serde_json::{Value, json};
use testbed::ControlPlaneOptions;

const MIB: u64 = 1 << 20;

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
fn filling(name: &str, mebibytes: &str, size_limit: Option<&str>) -> Value {
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

/// The path of the Node object.
fn node_path() -> String {
    format!("/api/v1/nodes/{NODE_NAME}")
}

/// Waits until a pressure condition of the node is as expected.
fn wait_pressure(cluster: &ClusterNode, kind: &str, expected: &str) -> Result<()> {
    cluster.wait_for(&node_path(), &format!("{kind} is {expected}"), |node| {
        (condition(node?, kind)["status"] == expected).then_some(())
    })
}

/// Waits for the final status of an evicted pod, and checks what every eviction by a threshold has.
fn wait_evicted(cluster: &ClusterNode, name: &str, message: &str) -> Result<Value> {
    let pod = cluster.wait_over(&ClusterNode::pod_path(name))?;
    let status = &pod["status"];
    let found = status["message"].as_str().unwrap_or_default();
    ensure!(status["phase"] == "Failed" && status["reason"] == "Evicted", "{status}");
    ensure!(found.starts_with(message), "{found}");
    let target = condition(&pod, "DisruptionTarget");
    ensure!(target["status"] == "True" && target["reason"] == "TerminationByKubelet", "{target}");
    ensure!(target["message"] == found, "{target}");
    let event = cluster.wait_for_event(name, "Evicted", message)?;
    ensure!(event["type"] == "Warning" && event["message"] == found, "{event}");
    let starved = &event["metadata"]["annotations"]["starved_resource"];
    ensure!(starved.is_string(), "{event}");
    cluster.wait_for_node_event("EvictionThresholdMet", "Attempting to reclaim ")?;
    Ok(pod)
}

/// A pod that requests a part of the disk, so that it stays within its request.
fn modest(name: &str) -> Value {
    let mut pod = pod(name, &["sleep", "forever"]);
    let requests = json!({ "ephemeral-storage": "20Mi", "memory": "50Mi" });
    pod["spec"]["containers"][0]["resources"] = json!({ "requests": requests });
    pod
}

/// The memory of the machine in bytes.
fn machine_memory() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("read /proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()).context("no MemTotal")?;
    Ok(kibibytes.parse::<u64>().context("MemTotal")? << 10)
}

// behaviour: EVI-33, EVI-40, EVI-41, EVI-62
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
    let container = cluster.running("modest")?;
    cluster.api().create(PODS, &filling("greedy", "45", None))?;
    wait_evicted(&cluster, "greedy", "The node was low on resource: ephemeral-storage. ")?;
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

// behaviour: EVI-5, EVI-17, EVI-60
#[test]
fn pod_that_holds_most_memory_is_evicted() -> Result<()> {
    let mut cluster = ClusterNode::start(&ControlPlaneOptions::default())?;
    // All pods together have 300 MiB.
    let reserved = machine_memory()? - 300 * MIB;
    cluster.set_thresholds(&format!(
        "evictionHard: {{memory.available: 100Mi, nodefs.available: 1%}}\n\
         kubeReserved: {{memory: \"{reserved}\"}}\n"
    ))?;
    cluster.start_agent()?;
    cluster.wait_node_ready()?;
    cluster.api().create(PODS, &modest("modest"))?;
    cluster.wait_ready(&ClusterNode::pod_path("modest"))?;
    let container = cluster.running("modest")?;
    let plan =
        cluster.node().wait_for_answer(&["evict", "plan"], "The node is not under pressure")?;
    ensure!(plan.contains("allocatableMemory.available"), "{plan}");
    cluster.make_pod("greedy", &["hold", "230"])?;
    let message = "The node was low on resource: memory. Threshold quantity: 100Mi, available: ";
    let pod = wait_evicted(&cluster, "greedy", message)?;
    let text = pod["status"]["message"].as_str().unwrap_or_default();
    let consumer = "request is 0, has larger consumption of memory. ";
    ensure!(text.contains("Container main was using ") && text.ends_with(consumer), "{text}");
    wait_pressure(&cluster, "MemoryPressure", "True")?;
    ensure!(cluster.running("modest")?.id == container.id, "the other pod was restarted");
    // Without a request it is rejected, with one it runs.
    cluster.make_pod("best-effort", &["sleep", "forever"])?;
    let rejected = cluster.wait_over(&ClusterNode::pod_path("best-effort"))?;
    let expected = "Pod was rejected: The node had condition: [MemoryPressure]. ";
    ensure!(rejected["status"]["message"] == expected, "{}", rejected["status"]);
    cluster.api().create(PODS, &modest("burstable"))?;
    cluster.wait_ready(&ClusterNode::pod_path("burstable"))?;
    cluster.stop()
}
