//! Pods above their limits.

use anyhow::{Context, Result, ensure};
use e2e::vm_limits::has;
use e2e::vm_node::{CGROUPS, PATIENCE, VmNode};

use super::pod;

/// A process of a pod outside of its containers: the runtime does not know it.
fn leave_process(node: &VmNode, cgroup: &str) -> Result<i32> {
    // It ends when it is killed.
    let pid = node.vm().spawn(&["ip", "monitor"], "/var/log/left.log")?;
    let left = format!("{cgroup}/left");
    node.vm().write(&format!("{CGROUPS}{left}/cgroup.procs"), &pid.to_string())?;
    has(node, &left, &[("cgroup.procs", &pid.to_string())])?;
    Ok(pid)
}

#[test]
fn containers_above_their_limits_are_throttled_or_oom_killed() -> Result<()> {
    let mut node = VmNode::start()?;
    // Bounded: some thirty megabytes of log.
    let busy = "[logs, --rate, max, --count, '600000']";
    let busy = pod("busy", busy, "resources: {limits: {cpu: 200m, memory: 64Mi}}");
    // This one has its own network.
    let busy = busy.replace("hostNetwork: true", "hostNetwork: false");
    node.write_manifest("busy.yaml", &busy.replace("Never", "Always"))?;
    // One line of a hundred megabytes, which is never written.
    let hungry = "[logs, --rate, '1', --count, '1', --size, '100000000']";
    let hungry = pod("hungry", hungry, "resources: {limits: {memory: 24Mi}}");
    node.write_manifest("hungry.yaml", &hungry)?;
    node.start_agent()?;

    let running = node.wait_running("busy", "main")?;
    ensure!(running.cgroup.starts_with("/kubepods/pod"), "{running:?}");
    let (of_pod, _) = running.cgroup.rsplit_once('/').context("a cgroup has a path")?;
    for cgroup in [of_pod, &running.cgroup] {
        has(&node, cgroup, &[("cpu.max", "20000 100000")])?;
    }
    // The pod's cgroup stays if the container has already ended.
    node.until("it is throttled", || {
        let stat = node.cgroup_file(of_pod, "cpu.stat")?;
        let count = stat.lines().find_map(|line| line.strip_prefix("nr_throttled "));
        Ok(if count.is_some_and(|count| count != "0") { Ok(()) } else { Err(stat) })
    })?;
    let end = node.wait_ended("hungry")?;
    ensure!(end == ("OOMKilled".to_owned(), 137), "{end:?}");
    let event = "reached the limit 24Mi of the ";
    node.until("the kill is reported", || {
        let described = node.ferrolet(&["describe", "hungry"])?;
        Ok(if described.contains(event) { Ok(()) } else { Err(described) })
    })?;
    let left = leave_process(&node, of_pod)?;
    node.remove_manifest("busy.yaml")?;
    node.remove_manifest("hungry.yaml")?;
    node.wait_for_no_pod_cgroup()?;
    let end =
        node.vm().wait(left, PATIENCE)?.context("a process outlives the cgroup of its pod")?;
    ensure!(end.signal == Some(9), "{end:?}");
    node.stop()
}
