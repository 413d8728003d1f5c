//! A thousand volumes at once.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::api::Patch;
use e2e::cluster_node::{ClusterNode, NAMESPACE, PODS, pod};
use serde_json::{Value, json};
use testbed::{ControlPlaneOptions, wait};

const PODS_IN_ALL: usize = 20;
const VOLUMES: usize = 50;
/// How long all volumes may take to follow after the last change.
const UPDATE: Duration = Duration::from_secs(10);
/// How much more memory the agent may need at the peak, in KiB.
const MORE_MEMORY: u64 = 30 * 1024;

fn config_maps() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/configmaps")
}

fn name(pod: usize, volume: usize) -> String {
    format!("c{pod}-{volume}")
}

/// A pod with many volumes, each of another config map.
fn crowded_pod(number: usize) -> Value {
    let mut pod = pod(&format!("crowd-{number}"), &["sleep", "forever"]);
    pod["metadata"]["labels"] = json!({ "app": "crowd" });
    let volumes = (0..VOLUMES).map(|volume| {
        json!({ "name": format!("v{volume}"), "configMap": { "name": name(number, volume) } })
    });
    let mounts = (0..VOLUMES)
        .map(|volume| json!({ "name": format!("v{volume}"), "mountPath": format!("/v/{volume}") }));
    pod["spec"]["volumes"] = volumes.collect();
    pod["spec"]["containers"][0]["volumeMounts"] = mounts.collect();
    pod
}

/// A line of the agent's status, in KiB.
fn memory(cluster: &ClusterNode, agent: &str, line: &str) -> Result<u64> {
    let status = cluster.node().run("cat", &[&format!("/proc/{agent}/status")])?;
    let found = status.lines().find_map(|one| one.strip_prefix(line)?.strip_suffix("kB"));
    found.with_context(|| format!("no {line} in {status}"))?.trim().parse().context("a number")
}

/// How many volumes have the new content.
fn updated(cluster: &ClusterNode) -> Result<usize> {
    let pods = cluster.node().root_dir().join("pods").display().to_string();
    let count = format!(
        "cat {pods}/*/volumes/kubernetes.io~configmap/*/value 2>/dev/null | grep -c new || true"
    );
    let count = cluster.node().run("sh", &["-c", &count])?;
    count.trim().parse().context("a number")
}

#[test]
fn thousand_config_map_volumes_follow_within_ten_seconds_and_30_mib() -> Result<()> {
    let mut cluster = ClusterNode::start(&ControlPlaneOptions::default())?;
    for pod in 0..PODS_IN_ALL {
        for volume in 0..VOLUMES {
            let map = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name(pod, volume) },
                "data": { "value": "old\n" },
            });
            cluster.api().create(&config_maps(), &map)?;
        }
    }
    cluster.start_agent()?;
    cluster.wait_node_ready()?;
    for number in 0..PODS_IN_ALL {
        cluster.api().create(PODS, &crowded_pod(number))?;
    }
    for number in 0..PODS_IN_ALL {
        cluster.wait_ready_at_last(&ClusterNode::pod_path(&format!("crowd-{number}")))?;
    }
    let agent = cluster.node().run("pidof", &["-s", "ferrolet"])?.trim().to_owned();
    // Resets the kernel's peak value.
    cluster.node().run("sh", &["-c", &format!("echo 5 > /proc/{agent}/clear_refs")])?;
    let before = memory(&cluster, &agent, "VmRSS:")?;
    let since = Instant::now();
    for pod in 0..PODS_IN_ALL {
        for volume in 0..VOLUMES {
            let path = format!("{}/{}", config_maps(), name(pod, volume));
            cluster.api().patch(&path, Patch::Merge, &json!({ "data": { "value": "new\n" } }))?;
        }
    }
    let changed = since.elapsed();
    let all = PODS_IN_ALL * VOLUMES;
    cluster.node().explained(wait::until("all volumes have the new content", UPDATE, || {
        let updated = updated(&cluster)?;
        Ok(if updated == all { Ok(()) } else { Err(format!("{updated} of {all}")) })
    }))?;
    let followed = since.elapsed();
    let more = memory(&cluster, &agent, "VmHWM:")?.saturating_sub(before);
    println!(
        "changed in {changed:.1?}, all written after {followed:.1?}, {more} KiB more at the peak"
    );
    ensure!(more <= MORE_MEMORY, "{more} KiB more at the peak");
    for number in 0..PODS_IN_ALL {
        cluster.api().delete(&ClusterNode::pod_path(&format!("crowd-{number}")))?;
    }
    cluster.wait_for_no_pods("app=crowd")?;
    cluster.stop()
}
