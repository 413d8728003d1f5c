//! The statistics of ferrolet and of the upstream kubelet, of the same running pod.

mod metrics_server;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::agent::Agent;
use e2e::cluster_node::ClusterNode;
use e2e::node::Node;
use e2e::statistics::{HOLDER, complete_summary, number, page, paths, series, write_to_volume};
use serde_json::Value;
use testbed::{ControlPlaneOptions, wait};

/// Upstream measures every 10 s, and volumes once a minute.
const TIME: Duration = Duration::from_mins(3);
const PAUSE: Duration = Duration::from_secs(2);

/// The port is [`e2e::statistics::PORT`].
const FLAGS: [&str; 2] = ["--read-only-port=10255", "--volume-stats-agg-period=5s"];

/// Gauges that stay the same while the pod runs.
const STEADY: [&str; 9] = [
    "/node/fs/capacityBytes",
    "/node/fs/inodes",
    "/node/rlimit/maxpid",
    "/node/runtime/imageFs/capacityBytes",
    "/pods/0/memory/workingSetBytes",
    "/pods/0/memory/rssBytes",
    "/pods/0/process_stats/process_count",
    "/pods/0/volume/0/usedBytes",
    "/pods/0/volume/0/inodesUsed",
];

/// Counters: the later agent reports more.
const COUNTERS: [&str; 4] = [
    "/node/cpu/usageCoreNanoSeconds",
    "/pods/0/cpu/usageCoreNanoSeconds",
    "/pods/0/network/rxBytes",
    "/pods/0/network/txBytes",
];

/// Parts of paths that upstream has alone: pressure on cgroup v1, where it is always 0; groups of processes whose
/// cgroups upstream finds otherwise.
const UPSTREAM_ALONE: [&str; 3] = ["/psi/", "/io/", "/systemContainers/"];

/// Metrics that upstream has alone. `docs/behaviour/statistics.md` says why.
const METRICS_OF_UPSTREAM: [&str; 24] = [
    "cadvisor_version_info",
    "container_blkio_device_usage_total",
    "container_cpu_cfs_burst_periods_total",
    "container_cpu_cfs_burst_seconds_total",
    "container_cpu_load_average_10s",
    "container_cpu_load_d_average_10s",
    "container_file_descriptors",
    "container_fs_inodes_free",
    "container_fs_inodes_total",
    "container_fs_io_current",
    "container_fs_io_time_seconds_total",
    "container_fs_io_time_weighted_seconds_total",
    "container_fs_limit_bytes",
    "container_fs_read_seconds_total",
    "container_fs_reads_merged_total",
    "container_fs_sector_reads_total",
    "container_fs_sector_writes_total",
    "container_fs_usage_bytes",
    "container_fs_write_seconds_total",
    "container_fs_writes_merged_total",
    "container_health_state",
    "container_sockets",
    "container_tasks_state",
    "container_ulimits_soft",
];

struct Measured {
    summary: Value,
    cadvisor: String,
    resource: String,
}

fn measure(node: &Node) -> Result<Measured> {
    let looked = || Ok(complete_summary(node));
    let summary = wait::every(PAUSE, "the usage of the pod", TIME, looked);
    let of_pod = || {
        let text = page(node, "/metrics/cadvisor")?;
        let has_pod = text.contains("container=\"main\"");
        Ok(if has_pod { Ok(text) } else { Err(format!("{} bytes", text.len())) })
    };
    Ok(Measured {
        summary: node.explained(summary)?,
        cadvisor: wait::every(PAUSE, "the cgroups of the pod", TIME, of_pod)?,
        resource: page(node, "/metrics/resource")?,
    })
}

fn measured_by(cluster: &mut ClusterNode, agent: Agent) -> Result<Measured> {
    cluster.hand_over_with_flags(agent, &FLAGS)?;
    measure(cluster.node()).with_context(|| format!("{agent:?}"))
}

#[test]
fn statistics_are_those_of_upstream() -> Result<()> {
    let mut cluster = ClusterNode::start(&ControlPlaneOptions::default())?;
    cluster.start_agent_with_flags(&FLAGS)?;
    cluster.wait_node_ready()?;
    cluster.node().write_manifest("holder.yaml", HOLDER)?;
    cluster.node().wait_container_running("holder", "main")?;
    cluster.node().wait_container_running("holder", "busy")?;
    write_to_volume(cluster.node())?;
    let before = measure(cluster.node())?;
    let upstream = measured_by(&mut cluster, Agent::Upstream)?;
    let after = measured_by(&mut cluster, Agent::Ferrolet)?;
    let mut differences = compare_paths(&after.summary, &upstream.summary);
    for path in STEADY {
        let (ours, theirs) = (number(&after.summary, path)?, number(&upstream.summary, path)?);
        if ours.abs_diff(theirs) * 20 > theirs {
            differences.push(format!("{path}: {ours}, upstream: {theirs}"));
        }
    }
    for path in COUNTERS {
        let in_order = [&before, &upstream, &after].map(|one| number(&one.summary, path));
        let in_order = in_order.into_iter().collect::<Result<Vec<_>>>()?;
        if !in_order.is_sorted() {
            differences.push(format!("{path}: {in_order:?}"));
        }
    }
    differences.extend(compare_series(&after.cadvisor, &upstream.cadvisor));
    differences.extend(compare_series(&after.resource, &upstream.resource));
    ensure!(differences.is_empty(), "{}", differences.join("\n"));
    cluster.stop()
}

fn compare_paths(ours: &Value, theirs: &Value) -> Vec<String> {
    let (ours, theirs) = (paths(ours), paths(theirs));
    let is_known = |path: &&String| UPSTREAM_ALONE.iter().any(|part| path.contains(part));
    let missing = theirs.difference(&ours).filter(|path| !is_known(path));
    let additional = ours.difference(&theirs).filter(|path| !is_known(path));
    let missing = missing.map(|path| format!("only upstream: {path}"));
    missing.chain(additional.map(|path| format!("only ferrolet: {path}"))).collect()
}

/// The series of pods and of the machine that one page has alone.
fn compare_series(ours: &str, theirs: &str) -> Vec<String> {
    let (ours, theirs) = (series(ours), series(theirs));
    let mut differences = Vec::new();
    for (metric, labels) in &theirs {
        if METRICS_OF_UPSTREAM.contains(&metric.as_str()) {
            continue;
        }
        let none = BTreeSet::new();
        let found = ours.get(metric).unwrap_or(&none);
        let missing = labels.difference(found).take(3);
        differences.extend(missing.map(|one| format!("only upstream: {metric} {one}")));
        let additional = found.difference(labels).take(3);
        differences.extend(additional.map(|one| format!("only ferrolet: {metric} {one}")));
    }
    let additional = ours.keys().filter(|metric| !theirs.contains_key(*metric));
    differences.extend(additional.map(|metric| format!("only ferrolet: {metric}")));
    differences
}
