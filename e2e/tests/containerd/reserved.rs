//! Reserved resources of the system and of Kubernetes: their cgroups, and what pods can allocate. The node has its own
//! cgroups, which are removed however a test ends.

use anyhow::{Context, Result, ensure};
use e2e::containerd;
use e2e::node::{NODE_NAME, Node};

use crate::admission::{failed, is_untouched, processors, requesting};
use crate::cgroups::{Value, has, is_v2, wait_for_end};
use crate::container::{lines, pod};

const KUBE: &str = "/kube-reserved";
const SYSTEM: &str = "/system-reserved";

/// Reserved resources, and their cgroups.
const AMOUNTS: &str = "\
kubeReserved: {cpu: 100m, memory: 64Mi, pid: '1000'}
systemReserved: {cpu: 250m, memory: 128Mi, pid: '500'}
evictionHard: {memory.available: 100Mi}
";

const MEBIBYTE: u64 = 1 << 20;

/// An amount of resources: millicores, bytes of memory, and processes.
#[derive(Debug, Clone, Copy)]
struct Share {
    milli: u64,
    memory: u64,
    processes: u64,
}

const OF_KUBE: Share = Share { milli: 100, memory: 64 * MEBIBYTE, processes: 1000 };
const OF_SYSTEM: Share = Share { milli: 250, memory: 128 * MEBIBYTE, processes: 500 };

fn number(node: &Node, script: &str) -> Result<u64> {
    let output = node.run("sh", &["-c", script])?;
    output.trim().parse().with_context(|| format!("read a number of {script}: {output}"))
}

/// The allocatable resources of the machine with these reserved millicores.
fn left(node: &Node, milli: u64) -> Result<Share> {
    let kibibytes = number(node, "awk '/^MemTotal:/ {print $2}' /proc/meminfo")?;
    let files = "/proc/sys/kernel/pid_max /proc/sys/kernel/threads-max";
    let processes = number(node, &format!("cat {files} | sort -n | head -n 1"))?;
    Ok(Share {
        milli: 1000 * u64::from(processors(node)?) - milli,
        memory: 1024 * kibibytes - OF_KUBE.memory - OF_SYSTEM.memory,
        processes: processes - OF_KUBE.processes - OF_SYSTEM.processes,
    })
}

/// Checks that a cgroup has the limits of its share.
fn has_share(node: &Node, cgroup: &str, share: Share) -> Result<()> {
    let shares = (share.milli * 1024 / 1000).max(2);
    let weight = (1 + (shares - 2) * 9999 / 262_142).to_string();
    // The kernel counts in pages.
    let memory = (share.memory / 4096 * 4096).to_string();
    let (shares, processes) = (shares.to_string(), share.processes.to_string());
    let values: [Value<'_>; 3] = [
        ("cpu", "cpu.shares", &shares, "cpu.weight", &weight),
        ("memory", "memory.limit_in_bytes", &memory, "memory.max", &memory),
        ("pids", "pids.max", &processes, "pids.max", &processes),
    ];
    has(node, cgroup, &values)
}

/// Makes a cgroup in all hierarchies, as its owner would.
fn make(node: &Node, cgroup: &str) -> Result<()> {
    let roots = if is_v2() { "/sys/fs/cgroup" } else { "/sys/fs/cgroup/*" };
    let script = format!(
        "for root in {roots}; do
            if [ -e \"$root/cgroup.procs\" ]; then mkdir -p \"$root{cgroup}\"; fi
        done"
    );
    node.run("sh", &["-c", &script]).map(drop)
}

/// The directories of a cgroup.
fn places(node: &Node, cgroup: &str) -> Result<String> {
    node.run("sh", &["-c", &format!("find /sys/fs/cgroup -maxdepth 2 -type d -path '*{cgroup}'")])
}

/// A pod without limits, whose environment shows the allocatable resources.
fn listener() -> String {
    let of = |name: &str, more: &str| {
        format!("valueFrom: {{resourceFieldRef: {{resource: limits.{name}{more}}}}}")
    };
    let (cpu, memory) = (of("cpu", ", divisor: 1m"), of("memory", ""));
    let env = format!("env: [{{name: CPU, {cpu}}}, {{name: MEMORY, {memory}}}]");
    pod("listener", "hostname: listener", &[("main", "[env]", &env)])
}

/// Checks the allocatable resources that a pod sees: without memory for eviction and huge pages.
fn check_reports(node: &Node, left: Share) -> Result<()> {
    node.wait_for_log(&["Pod terminated and cleaned up", &format!("shop/listener-{NODE_NAME}")])?;
    let found = lines(node, "listener", "main")?;
    let sum = "awk '/^Hugetlb:/ {sum += $2} END {print sum + 0}' /proc/meminfo";
    let memory = left.memory - 100 * MEBIBYTE - 1024 * number(node, sum)?;
    for line in [format!("CPU={}", left.milli), format!("MEMORY={memory}")] {
        ensure!(found.contains(&line), "no {line} in {found:?}");
    }
    Ok(())
}

// behaviour: CGR-8, CGR-20, CGR-22, CGR-23
#[test]
fn reserved_cgroups_and_pods_are_limited() -> Result<()> {
    let mut node = Node::start()?;
    node.configure(&format!(
        "{AMOUNTS}kubeReservedCgroup: {KUBE}\nsystemReservedCgroup: {SYSTEM}\n\
         enforceNodeAllocatable: [pods, kube-reserved, system-reserved]\n"
    ))?;
    node.write_manifest("listener.yaml", &listener())?;
    // The first of both is limited; the other one is missing, and only its owner may create it.
    make(&node, SYSTEM)?;
    node.start_agent()?;
    let failure = "Failed to enforce Kube Reserved Cgroup Limits on";
    node.wait_for_log(&["FailedNodeAllocatableEnforcement", failure, KUBE, "missing"])?;
    wait_for_end(&node)?;
    has_share(&node, SYSTEM, OF_SYSTEM)?;
    let made = places(&node, KUBE)?;
    ensure!(made.is_empty(), "{made}");
    let containers = containerd::containers(node.instance())?;
    ensure!(containers.is_empty(), "a pod was started: {containers:?}");

    make(&node, KUBE)?;
    node.start_agent()?;
    for what in [
        "Updated limits on system reserved cgroup /system-reserved",
        "Updated limits on kube reserved cgroup /kube-reserved",
        "Updated Node Allocatable limit across pods",
    ] {
        node.wait_for_log(&["NodeAllocatableEnforced", what])?;
    }
    let left = left(&node, OF_KUBE.milli + OF_SYSTEM.milli)?;
    for (cgroup, share) in [(KUBE, OF_KUBE), (SYSTEM, OF_SYSTEM), ("/kubepods", left)] {
        has_share(&node, cgroup, share)?;
    }
    check_reports(&node, left)?;

    // A pod with all of it is admitted; the next one is rejected.
    node.write_manifest("all.yaml", &requesting("all", "", &format!("{}m", left.milli)))?;
    node.wait_running("all")?;
    node.write_manifest("more.yaml", &requesting("more", "", "1m"))?;
    let status = failed(&node, "more", "UnexpectedAdmissionError")?;
    let message = status["message"].as_str().unwrap_or_default();
    ensure!(
        message.contains("[(res: cpu, q: 1), ]. Not enough cpu: the pod requests 1m, "),
        "{message}"
    );
    is_untouched(&node, "more")?;

    // Cleaning the node up keeps the cgroups of other owners.
    node.stop_agent()?;
    node.clean()?;
    let of_pods = places(&node, "/kubepods")?;
    ensure!(of_pods.is_empty(), "{of_pods}");
    has_share(&node, KUBE, OF_KUBE)?;
    has_share(&node, SYSTEM, OF_SYSTEM)?;
    node.stop()
}

// behaviour: CGR-8, CGR-31
#[test]
fn reserved_cpu_list_overrides_the_reserved_amounts() -> Result<()> {
    let mut node = Node::start()?;
    node.configure(&format!("{AMOUNTS}reservedSystemCPUs: '0'\n"))?;
    node.write_manifest("listener.yaml", &listener())?;
    node.start_agent()?;
    let enforced = "Updated Node Allocatable limit across pods";
    node.wait_for_log(&["NodeAllocatableEnforced", enforced])?;
    let left = left(&node, 1000)?;
    has_share(&node, "/kubepods", left)?;
    // Pods are not pinned: they may use any CPU, within their share.
    let online = node.run("cat", &["/sys/devices/system/cpu/online"])?;
    let online = online.trim();
    has(&node, "/kubepods", &[("cpuset", "cpuset.cpus", online, "cpuset.cpus", online)])?;
    check_reports(&node, left)?;
    node.stop()
}
