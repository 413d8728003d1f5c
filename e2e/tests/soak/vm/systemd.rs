//! A node whose pid 1 is a real systemd.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use e2e::vm_limits::{self, Limited, MEBIBYTE, SYSTEMD};
use e2e::vm_node::{PATIENCE, VmNode, VmOptions};
use vm::Root;

use super::{pod, resize};

/// systemd's properties of a unit.
fn properties(node: &VmNode, unit: &str, names: &[&str]) -> Result<BTreeMap<String, String>> {
    let names = names.join(",");
    let shown = node.vm().output(&["systemctl", "show", unit, "--property", &names], PATIENCE)?;
    let pairs = shown.lines().filter_map(|line| line.split_once('='));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// Checks properties of a unit.
fn is(node: &VmNode, unit: &str, expected: &[(&str, &str)]) -> Result<()> {
    let names: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    let found = properties(node, unit, &names)?;
    for (name, value) in expected {
        ensure!(found.get(*name).is_some_and(|found| found == value), "{unit}: {name}: {found:?}");
    }
    Ok(())
}

/// The last part of a cgroup's path, which is the name of its unit.
fn unit(cgroup: &str) -> Result<&str> {
    Ok(cgroup.rsplit_once('/').context("a cgroup has a path")?.1)
}

/// The differences from the example unit: no targets of a whole system, the test's agent, and a longer watchdog
/// timeout.
pub(super) fn drop_in() -> String {
    format!(
        "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=\nExecStart=/bin/{}\n\
         WatchdogSec=300\nStandardOutput=truncate:{log}\nStandardError=truncate:{log}\n",
        VmNode::agent_command().join(" "),
        log = VmNode::AGENT_LOG,
    )
}

#[test]
fn systemd_restarts_the_agent_and_pods_keep_running() -> Result<()> {
    let mut root = Root::default();
    let init = vm::put_systemd(&mut root)?;
    let example =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/systemd/ferrolet.service");
    root.copy("/etc/systemd/system/ferrolet.service", &example);
    root.text("/etc/systemd/system/ferrolet.service.d/here.conf", drop_in());
    let options = VmOptions { root, init: Some(init), ..VmOptions::default() };
    let node = VmNode::start_with(options)?;
    ensure!(node.vm().read("/proc/1/comm")?.trim() == "systemd");
    node.write_manifest("sleeper.yaml", &pod("sleeper", "[sleep, forever]", ""))?;
    node.vm().output(&["systemctl", "start", "ferrolet"], PATIENCE)?;
    let active = ("ActiveState", "active");
    is(&node, "ferrolet", &[active, ("StatusText", "keeps the pods of this node")])?;
    let before = node.wait_running("sleeper", "main")?;

    let main_pid = || -> Result<String> {
        let pid = properties(&node, "ferrolet", &["MainPID"])?.remove("MainPID");
        pid.context("a service has a process")
    };
    let agent = main_pid()?;
    ensure!(vm_limits::oom_score(&node, agent.parse()?)? == -999);
    node.vm().signal(agent.parse()?, 9)?;
    node.until("another agent is ready", || {
        let is_active = is(&node, "ferrolet", &[active]).map_err(|error| error.to_string());
        let pid = main_pid()?;
        let is_another = pid != agent && pid != "0";
        Ok(is_active.and(if is_another { Ok(()) } else { Err(pid) }))
    })?;
    node.wait_for_log(&["Pod synced", "sleeper"])?;
    let after = node.container(&before.id)?;
    ensure!(after.pid == before.pid, "{before:?}, then {after:?}");

    node.vm().output(&["systemctl", "stop", "ferrolet"], PATIENCE)?;
    is(&node, "ferrolet", &[("ActiveState", "inactive"), ("Result", "success")])?;
    let after = node.container(&before.id)?;
    ensure!(after.pid == before.pid, "{before:?}, then {after:?}");
    node.stop()
}

/// The cgroups of a pod are units, with limits in systemd.
fn are_units(node: &VmNode, limited: &Limited) -> Result<()> {
    let of_pod = unit(&limited.cgroup)?;
    let megabytes = |count: u64| (count * MEBIBYTE).to_string();
    let active = ("ActiveState", "active");
    let of_pod_is = [
        active,
        ("Slice", "kubepods-burstable.slice"),
        ("ControlGroup", &limited.cgroup),
        ("CPUWeight", "14"),
        ("CPUQuotaPerSecUSec", "600ms"),
        ("MemoryMax", &megabytes(80)),
        ("TasksMax", "200"),
    ];
    is(node, of_pod, &of_pod_is)?;
    let large_is = [
        active,
        ("Slice", of_pod),
        ("ControlGroup", &limited.large.cgroup),
        ("CPUWeight", "35"),
        ("CPUQuotaPerSecUSec", "500ms"),
        ("MemoryMax", &megabytes(64)),
    ];
    is(node, unit(&limited.large.cgroup)?, &large_is)?;
    is(node, unit(&limited.small.cgroup)?, &[active, ("Slice", of_pod)])?;
    for (class, weight) in [("kubepods-burstable.slice", "14"), ("kubepods-besteffort.slice", "1")]
    {
        is(node, class, &[active, ("Slice", "kubepods.slice"), ("CPUWeight", weight)])?;
    }
    let reserved =
        [active, ("CPUWeight", "10"), ("MemoryMax", &megabytes(100)), ("TasksMax", "1000")];
    is(node, "reserved.slice", &reserved)?;
    is(node, "kubepods.slice", &[active, ("Slice", "-.slice")])
}

/// Waits until no units of pods are left except their parents.
fn wait_for_no_pod_unit(node: &VmNode) -> Result<()> {
    let list =
        ["systemctl", "list-units", "--all", "--plain", "--no-legend", "--type", "slice,scope"];
    node.until("no pod has a unit", || {
        let listed = node.vm().output(&list, PATIENCE)?;
        let units = listed.lines().filter_map(|line| line.split_whitespace().next());
        let left: Vec<&str> =
            units.filter(|unit| unit.contains("-pod") || unit.contains("containerd")).collect();
        ensure!(listed.contains("kubepods-burstable.slice"), "{listed}");
        Ok(if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) })
    })
}

/// A slice with reserved resources.
const RESERVED: &str = "[Unit]\nDescription=What is not for pods\nDefaultDependencies=no\n";

#[test]
fn systemd_cgroups_of_pods_have_the_right_limits() -> Result<()> {
    let mut root = Root::default();
    let init = Some(vm::put_systemd(&mut root)?);
    root.text("/etc/systemd/system/reserved.slice", RESERVED);
    let options = VmOptions { root, init, systemd_cgroups: true, ..VmOptions::default() };
    let mut node = VmNode::start_with(options)?;
    node.vm().output(&["systemctl", "start", "reserved.slice"], PATIENCE)?;
    // OOM kills of whole containers are not tested: before version 253 systemd resets that setting.
    let limited = vm_limits::begin(&mut node, &SYSTEMD)?;
    vm_limits::has_limits(&node, &SYSTEMD, &limited)?;
    are_units(&node, &limited)?;
    // systemd resets settings that it does not know when it reads all units again.
    node.vm().output(&["systemctl", "daemon-reload"], PATIENCE)?;
    vm_limits::has_limits(&node, &SYSTEMD, &limited)?;
    are_units(&node, &limited)?;
    vm_limits::end(&node, &SYSTEMD)?;
    wait_for_no_pod_unit(&node)?;

    resize::play(&node, SYSTEMD.burstable)?;
    wait_for_no_pod_unit(&node)?;
    node.stop()
}
