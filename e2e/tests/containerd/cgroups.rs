//! The cgroups of pods on a real kernel, with cgroup v1 or v2.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use e2e::node::{NODE_NAME, Node, PATIENCE};
use testbed::wait;

/// A value of a cgroup: controller and file of v1, the file of v2, and the value in v2 for a value in v1.
pub(crate) type Value<'a> = (&'a str, &'a str, &'a str, &'a str, &'a str);

pub(crate) fn is_v2() -> bool {
    Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

fn pod(name: &str, policy: &str, args: &str, resources: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  restartPolicy: {policy}\n  \
         terminationGracePeriodSeconds: 2\n  containers:\n  - name: main\n    \
         image: ferrolet.test/workload:1\n    args: {args}\n    resources: {{{resources}}}\n"
    )
}

/// The content of a cgroup's file.
fn read(node: &Node, cgroup: &str, controller: &str, v1: &str, v2: &str) -> Result<String> {
    let path = if is_v2() {
        format!("/sys/fs/cgroup{cgroup}/{v2}")
    } else {
        format!("/sys/fs/cgroup/{controller}{cgroup}/{v1}")
    };
    Ok(node.read(&path)?.trim().to_owned())
}

pub(crate) fn has(node: &Node, cgroup: &str, values: &[Value<'_>]) -> Result<()> {
    for (controller, v1, first, v2, second) in values {
        let found = read(node, cgroup, controller, v1, v2)?;
        let expected = if is_v2() { second } else { first };
        ensure!(found == *expected, "{cgroup}: {v1} or {v2} is {found}, not {expected}");
    }
    Ok(())
}

/// The directories of all pods' cgroups.
fn of_pods(node: &Node) -> Result<Vec<String>> {
    // A cgroup that is removed meanwhile is not an error.
    let find = "find /sys/fs/cgroup -type d -path '*/kubepods/*' -name 'pod*' 2> /dev/null || true";
    Ok(node.run("sh", &["-c", find])?.lines().map(ToOwned::to_owned).collect())
}

pub(crate) fn wait_for_none(node: &Node) -> Result<()> {
    node.explained(wait::until("no pod has a cgroup", PATIENCE, || {
        let left = of_pods(node)?;
        Ok(if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) })
    }))
}

/// The cgroup of a running pod, by its container's process.
pub(crate) fn cgroup_of(node: &Node, pod: &str) -> Result<String> {
    // Its process may end while it is being read, and then another one starts.
    let memberships = node.explained(wait::until("its process is there", PATIENCE, || {
        let pid = node.wait_running(pod)?.pid;
        let read = node.run("cat", &[&format!("/proc/{pid}/cgroup")]);
        Ok(read.map_err(|error| format!("{error:#}")))
    }))?;
    let mut paths = memberships.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let path = paths.find(|path| path.contains("/kubepods/"));
    let path = path.with_context(|| format!("{pod} is not in kubepods: {memberships}"))?;
    // The last part is the container's.
    let (of_pod, _) = path.rsplit_once('/').context("a container lies in its pod's cgroup")?;
    let (_, from_root) = of_pod.split_once("/kubepods/").context("it was found by that")?;
    Ok(format!("/kubepods/{from_root}"))
}

/// Waits until the agent has exited.
pub(crate) fn wait_for_end(node: &Node) -> Result<()> {
    node.explained(wait::until("the agent exits", PATIENCE, || {
        Ok(if node.agent_is_alive()? { Err("it runs".to_owned()) } else { Ok(()) })
    }))
}

#[test]
fn pod_cgroup_has_limits_throttles_and_is_removed_with_the_pod() -> Result<()> {
    let mut node = Node::start()?;
    node.configure(
        "podPidsLimit: 200\nkubeReserved: {cpu: 100m, memory: 100Mi, pid: '1000'}\n\
         imageGCHighThresholdPercent: 100\n",
    )?;
    let limits = "limits: {cpu: 50m, memory: 64Mi}";
    // Bounded: about two megabytes of log.
    let busy = "[logs, --rate, max, --count, '300000']";
    node.write_manifest("limited.yaml", &pod("limited", "Always", busy, limits))?;
    let some = "requests: {cpu: 250m}, limits: {memory: 32Mi}";
    node.write_manifest("some.yaml", &pod("some", "Always", "[sleep, forever]", some))?;
    node.write_manifest("plain.yaml", &pod("plain", "Always", "[sleep, forever]", ""))?;
    node.start_agent()?;
    let limited = cgroup_of(&node, "limited")?;
    ensure!(limited.starts_with("/kubepods/pod"), "{limited}");
    let memory = (64 << 20).to_string();
    has(
        &node,
        &limited,
        &[
            ("cpu", "cpu.shares", "51", "cpu.weight", "2"),
            ("cpu", "cpu.cfs_quota_us", "5000", "cpu.max", "5000 100000"),
            ("memory", "memory.limit_in_bytes", &memory, "memory.max", &memory),
            ("pids", "pids.max", "200", "pids.max", "200"),
        ],
    )?;
    let some = cgroup_of(&node, "some")?;
    ensure!(some.starts_with("/kubepods/burstable/pod"), "{some}");
    let memory = (32 << 20).to_string();
    let shares = ("cpu", "cpu.shares", "256", "cpu.weight", "10");
    let limit = ("memory", "memory.limit_in_bytes", &*memory, "memory.max", &*memory);
    has(
        &node,
        &some,
        &[shares, limit, ("cpu", "cpu.cfs_quota_us", "-1", "cpu.max", "max 100000")],
    )?;
    has(&node, "/kubepods/burstable", &[shares])?;
    let plain = cgroup_of(&node, "plain")?;
    ensure!(plain.starts_with("/kubepods/besteffort/pod"), "{plain}");
    let least = ("cpu", "cpu.shares", "2", "cpu.weight", "1");
    has(&node, &plain, &[least])?;
    has(&node, "/kubepods/besteffort", &[least])?;
    let all = read(&node, "/kubepods", "memory", "memory.limit_in_bytes", "memory.max")?;
    let machine = node.run("awk", &["/MemTotal/ {print $2}", "/proc/meminfo"])?;
    let reserved = machine.trim().parse::<u64>()? * 1024 - (100 << 20);
    // The kernel counts in pages.
    ensure!(all.parse::<u64>()?.abs_diff(reserved) < 4096, "{all} and not {reserved}");
    node.explained(wait::until("the busy container is throttled", PATIENCE, || {
        let stat = read(&node, &limited, "cpu", "cpu.stat", "cpu.stat")?;
        let mut lines = stat.lines().filter_map(|line| line.strip_prefix("nr_throttled "));
        let is_slow = lines.next().is_some_and(|count| count != "0");
        Ok(if is_slow { Ok(()) } else { Err(stat) })
    }))?;
    for name in ["limited", "some", "plain"] {
        node.remove_manifest(&format!("{name}.yaml"))?;
    }
    wait_for_none(&node)?;
    has(&node, "/kubepods/burstable", &[least])?;
    let why = node.wait_for_answer(&["gc", "why", &limited], "removed")?;
    ensure!(why.contains("pod-has-ended") && why.contains("default/limited-"), "{why}");
    node.stop()
}

#[test]
fn container_above_its_memory_limit_is_oom_killed() -> Result<()> {
    let mut node = Node::start()?;
    // One line of a hundred megabytes, which is never written.
    let hungry = "[logs, --rate, '1', --count, '1', --size, '100000000']";
    let limits = "limits: {memory: 24Mi}";
    node.write_manifest("hungry.yaml", &pod("hungry", "Never", hungry, limits))?;
    node.start_agent()?;
    node.wait_for_log(&["Pod terminated and cleaned up", &format!("default/hungry-{NODE_NAME}")])?;
    let described = node.wait_for_answer(&["describe", "hungry"], "OOMKilled")?;
    ensure!(described.contains("137"), "{described}");
    wait_for_none(&node)?;
    node.stop()
}

#[test]
fn next_agent_removes_cgroups_that_a_killed_agent_left() -> Result<()> {
    let mut node = Node::start()?;
    for name in ["stays", "goes"] {
        let manifest = pod(name, "Always", "[sleep, forever]", "requests: {cpu: 10m}");
        node.write_manifest(&format!("{name}.yaml"), &manifest)?;
    }
    node.start_agent()?;
    let (stays, goes) = (cgroup_of(&node, "stays")?, cgroup_of(&node, "goes")?);
    let before = node.wait_running("stays")?;
    node.kill_agent()?;
    node.remove_manifest("goes.yaml")?;
    // A leftover cgroup of a pod that the runtime does not know, with a process in it.
    let orphan = "for root in /sys/fs/cgroup /sys/fs/cgroup/*; do
            if [ -d \"$root/kubepods/besteffort\" ]; then
                mkdir -p \"$root/kubepods/besteffort/podorphan/deep\"
            fi
        done
        sleep 1000 > /dev/null 2>&1 &
        for procs in /sys/fs/cgroup/*/kubepods/besteffort/podorphan/deep/cgroup.procs \\
            /sys/fs/cgroup/kubepods/besteffort/podorphan/deep/cgroup.procs; do
            if [ -e \"$procs\" ] && [ \"${procs#*/cpuset/}\" = \"$procs\" ]; then
                echo $! > \"$procs\"
            fi
        done
        echo $!";
    let process = node.run("sh", &["-c", orphan])?;
    node.start_agent()?;
    let left: Vec<String> = node.explained(wait::until("only one stays", PATIENCE, || {
        let left = of_pods(&node)?;
        let others = left.iter().any(|path| !path.ends_with(&stays));
        Ok(if others { Err(format!("{left:?}")) } else { Ok(left) })
    }))?;
    ensure!(!left.is_empty() && goes != stays, "{left:?}");
    ensure!(node.wait_running("stays")?.id == before.id, "it keeps running");
    let state = format!("/proc/{}/stat", process.trim());
    let gone = format!("! grep -qv ') Z ' {state} 2> /dev/null");
    node.run("sh", &["-c", &gone]).context("the process in it is dead")?;
    // Cleaning the node up removes all cgroups, also the parents of those of pods.
    node.stop_agent()?;
    node.clean()?;
    let left = node.run("sh", &["-c", "find /sys/fs/cgroup -type d -name kubepods"])?;
    ensure!(left.is_empty(), "{left}");
    node.stop()
}

// behaviour: CGR-6
#[test]
fn agent_exits_when_its_cgroup_root_is_missing() -> Result<()> {
    let mut node = Node::start()?;
    node.configure("cgroupRoot: /nowhere")?;
    node.start_agent()?;
    let output = node.wait_for_log(&["cgroupRoot", "/nowhere", "missing"])?;
    ensure!(output.contains("/sys/fs/cgroup"), "{output}");
    wait_for_end(&node)?;
    node.stop()
}

#[test]
fn agent_stops_while_it_waits_for_the_cgroup_driver() -> Result<()> {
    let mut node = Node::start()?;
    let proxy = node.put_proxy_before_runtime()?;
    node.configure("")?;
    proxy.fault("RuntimeConfig=hang")?;
    node.start_agent()?;
    node.explained(wait::until("the runtime gets a request", PATIENCE, || {
        let requested = proxy.spoilt()?.get("RuntimeConfig").copied();
        Ok(requested.filter(|count| *count > 0).ok_or_else(|| "not yet".to_owned()))
    }))?;
    let begun = std::time::Instant::now();
    let ended = node.stop_agent()?;
    ensure!(ended.success(), "{ended}");
    // It would wait for two minutes.
    ensure!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    node.stop()
}
