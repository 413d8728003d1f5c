//! A pod with limits, and its cgroups in the kernel of a virtual machine.

use anyhow::{Context, Result, ensure};

use crate::vm_node::{CGROUPS, VmContainer, VmNode};

/// The names of pods' cgroups, by cgroup driver.
#[derive(Debug)]
pub struct Names {
    /// The cgroup of all pods.
    pub pods: &'static str,
    /// The cgroups of burstable and best-effort pods.
    pub burstable: &'static str,
    pub besteffort: &'static str,
    /// The prefix of a burstable pod's cgroup.
    pub pod: &'static str,
    /// The cgroup that resources are reserved for; it exists before the agent starts.
    pub reserved: &'static str,
}

/// With the cgroupfs driver.
pub const CGROUPFS: Names = Names {
    pods: "/kubepods",
    burstable: "/kubepods/burstable",
    besteffort: "/kubepods/besteffort",
    pod: "/kubepods/burstable/pod",
    reserved: "/reserved",
};

/// With the systemd driver.
pub const SYSTEMD: Names = Names {
    pods: "/kubepods.slice",
    burstable: "/kubepods.slice/kubepods-burstable.slice",
    besteffort: "/kubepods.slice/kubepods-besteffort.slice",
    pod: "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod",
    reserved: "/reserved.slice",
};

const LIMITED: &str = "
apiVersion: v1
kind: Pod
metadata: {name: limited}
spec:
  # A network of its own would take longer than all the rest.
  hostNetwork: true
  terminationGracePeriodSeconds: 2
  containers:
  - name: large
    image: ferrolet.test/workload:1
    args: [sleep, forever]
    resources: {requests: {cpu: 250m, memory: 32Mi}, limits: {cpu: 500m, memory: 64Mi}}
  - name: small
    image: ferrolet.test/workload:1
    args: [sleep, forever]
    resources: {limits: {cpu: 100m, memory: 16Mi}}
";

pub const MEBIBYTE: u64 = 1 << 20;

/// Checks files of a cgroup.
pub fn has(node: &VmNode, cgroup: &str, values: &[(&str, &str)]) -> Result<()> {
    for (file, expected) in values {
        let found = node.cgroup_file(cgroup, file)?;
        ensure!(found == *expected, "{cgroup}: {file} is {found}, not {expected}");
    }
    Ok(())
}

/// The machine's memory, in bytes.
fn memory(node: &VmNode) -> Result<u64> {
    let meminfo = node.vm().read("/proc/meminfo")?;
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = total.and_then(|total| total.split_whitespace().next());
    Ok(kibibytes.context("meminfo has a total")?.parse::<u64>()? * 1024)
}

/// The process limit of the machine.
fn most_processes(node: &VmNode) -> Result<u64> {
    let [pids, threads] = ["pid_max", "threads-max"].map(|file| {
        let value = node.vm().read(&format!("/proc/sys/kernel/{file}"))?;
        Ok::<u64, anyhow::Error>(value.trim().parse()?)
    });
    Ok(pids?.min(threads?))
}

/// The OOM score adjustment of a process.
pub fn oom_score(node: &VmNode, pid: i32) -> Result<i64> {
    Ok(node.vm().read(&format!("/proc/{pid}/oom_score_adj"))?.trim().parse()?)
}

/// The OOM score adjustment of a burstable container with this memory request.
pub fn oom_score_of(node: &VmNode, request: u64) -> Result<i64> {
    let share = i64::try_from(1000 * request / memory(node)?)?;
    Ok((1000 - share).clamp(3, 999))
}

/// A running pod with limits.
#[derive(Debug)]
pub struct Limited {
    /// Its cgroup.
    pub cgroup: String,
    pub large: VmContainer,
    pub small: VmContainer,
}

/// A pod with limits is created and removed. While it runs, its cgroups have the limits that the kubelet and the
/// runtime compute; afterwards it has no cgroup. The agent is not started yet.
pub fn play(node: &mut VmNode, names: &Names) -> Result<()> {
    // Writing the file creates the cgroup.
    node.vm().write(&format!("{CGROUPS}{}/cgroup.freeze", names.reserved), "0")?;
    let limited = begin(node, names)?;
    has_limits(node, names, &limited)?;
    dies_as_a_whole(node, &limited)?;
    end(node, names)
}

/// Runs the pod. The cgroup that resources are reserved for exists.
pub fn begin(node: &mut VmNode, names: &Names) -> Result<Limited> {
    node.configure(&format!(
        "podPidsLimit: 200\nkubeReserved: {{cpu: 250m, memory: 100Mi, pid: '1000'}}\n\
         kubeReservedCgroup: {}\nenforceNodeAllocatable: [pods, kube-reserved]\n",
        names.reserved
    ))?;
    node.write_manifest("limited.yaml", LIMITED)?;
    node.start_agent()?;
    let large = node.wait_running("limited", "large")?;
    let small = node.wait_running("limited", "small")?;
    let (pod, own) = large.cgroup.rsplit_once('/').context("a cgroup has a path")?;
    ensure!(own.contains(&large.id) && pod.starts_with(names.pod), "{large:?}");
    ensure!(small.cgroup.starts_with(&format!("{pod}/")), "{small:?}");
    Ok(Limited { cgroup: pod.to_owned(), large, small })
}

/// Checks that the cgroups have the right limits.
pub fn has_limits(node: &VmNode, names: &Names, limited: &Limited) -> Result<()> {
    let Limited { cgroup: pod, large, small } = limited;
    // CPU shares of 250m and 100m together, by the kubelet's formula: 358 of 262144 are 14 of 10000.
    has(node, pod, &[("cpu.weight", "14"), ("cpu.max", "60000 100000"), ("pids.max", "200")])?;
    has(node, pod, &[("memory.max", &(80 * MEBIBYTE).to_string())])?;
    // The runtime converts a container's shares to a weight by another formula.
    has(node, &large.cgroup, &[("cpu.weight", "35"), ("cpu.max", "50000 100000")])?;
    has(node, &large.cgroup, &[("memory.max", &(64 * MEBIBYTE).to_string())])?;
    has(node, &small.cgroup, &[("cpu.weight", "17"), ("cpu.max", "10000 100000")])?;
    has(node, &small.cgroup, &[("memory.max", &(16 * MEBIBYTE).to_string())])?;
    has(node, names.burstable, &[("cpu.weight", "14"), ("memory.max", "max")])?;
    has(node, names.besteffort, &[("cpu.weight", "1")])?;
    has(node, names.pods, &[("pids.max", &(most_processes(node)? - 1000).to_string())])?;
    let memory = memory(node)?;
    let of_pods: u64 = node.cgroup_file(names.pods, "memory.max")?.parse()?;
    has(node, names.reserved, &[("cpu.weight", "10"), ("pids.max", "1000")])?;
    has(node, names.reserved, &[("memory.max", &(100 * MEBIBYTE).to_string())])?;
    // The kernel counts in pages.
    ensure!(of_pods.abs_diff(memory - 100 * MEBIBYTE) < 4096, "{of_pods} of {memory}");
    for (container, request) in [(large, 32 * MEBIBYTE), (small, 16 * MEBIBYTE)] {
        let (score, expected) = (oom_score(node, container.pid)?, oom_score_of(node, request)?);
        ensure!(score == expected, "{container:?}: {score}, not {expected}");
    }
    Ok(())
}

/// At the memory limit of a container all its processes are killed.
pub fn dies_as_a_whole(node: &VmNode, limited: &Limited) -> Result<()> {
    let mut containers = [&limited.large, &limited.small].into_iter();
    containers.try_for_each(|one| has(node, &one.cgroup, &[("memory.oom.group", "1")]))
}

/// Removes the pod.
pub fn end(node: &VmNode, names: &Names) -> Result<()> {
    // A container runs before its pod is reported as ready.
    node.until("both containers are ready", || {
        let pods = node.ferrolet(&["get", "pods"])?;
        Ok(if pods.contains("limited") && pods.contains("2/2") { Ok(()) } else { Err(pods) })
    })?;
    node.remove_manifest("limited.yaml")?;
    node.wait_for_no_pod_cgroup()?;
    node.until("the CPU shares of the QoS class are at their minimum", || {
        let weight = node.cgroup_file(names.burstable, "cpu.weight")?;
        Ok(if weight == "1" { Ok(()) } else { Err(weight) })
    })
}
