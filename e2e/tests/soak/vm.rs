//! What only the kernel of a virtual machine has: the second version of cgroups at work, `AppArmor`, and a
//! real systemd.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use e2e::node::NODE_NAME;
use e2e::vm_limits::{self, SYSTEMD};
use e2e::vm_node::{PATIENCE, VmNode, VmOptions};
use serde_json::Value;
use testbed::Cache;
use vm::Root;

fn pod(name: &str, args: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  restartPolicy: Never\n  \
         terminationGracePeriodSeconds: 2\n  containers:\n  - name: main\n    \
         image: ferrolet.test/workload:1\n    args: {args}\n    {more}\n"
    )
}

/// How the container of a pod ended: its reason and its code.
fn ended(node: &VmNode, pod: &str) -> Result<(String, i64)> {
    let name = format!("{pod}-{NODE_NAME}");
    node.wait_for_log(&["pod has ended", &name])?;
    let told = node.ask(&["get", "pods", "-o", "json"])?;
    let told: Value = serde_json::from_str(&told).context("read what the agent tells")?;
    let items = told["items"].as_array().context("there are pods")?;
    let pod = items.iter().find(|item| item["metadata"]["name"] == name.as_str());
    let status = &pod.context("the pod is told")?["status"];
    let end = &status["containerStatuses"][0]["state"]["terminated"];
    let reason = end["reason"].as_str().with_context(|| format!("a reason: {status}"))?;
    let code = end["exitCode"].as_i64().with_context(|| format!("a code: {status}"))?;
    Ok((reason.to_owned(), code))
}

#[test]
fn who_wants_more_than_its_limits_is_slowed_down_or_killed_and_told_so() -> Result<()> {
    let mut node = VmNode::start()?;
    // Bounded: about two megabytes of log.
    let busy = "[logs, --rate, max, --count, '300000']";
    let busy = pod("busy", busy, "resources: {limits: {cpu: 50m, memory: 64Mi}}");
    node.write_manifest("busy.yaml", &busy)?;
    // One line of a hundred megabytes, which is never written.
    let hungry = "[logs, --rate, '1', --count, '1', --size, '100000000']";
    let hungry = pod("hungry", hungry, "resources: {limits: {memory: 24Mi}}");
    node.write_manifest("hungry.yaml", &hungry)?;
    node.start_agent()?;

    let running = node.wait_running("busy", "main")?;
    ensure!(running.cgroup.starts_with("/kubepods/pod"), "{running:?}");
    let (of_pod, _) = running.cgroup.rsplit_once('/').context("a cgroup has a path")?;
    for cgroup in [of_pod, &running.cgroup] {
        let limit = node.cgroup_file(cgroup, "cpu.max")?;
        ensure!(limit == "5000 100000", "{cgroup}: {limit}");
    }
    node.until("it is slowed down", || {
        let told = node.cgroup_file(&running.cgroup, "cpu.stat")?;
        let count = told.lines().find_map(|line| line.strip_prefix("nr_throttled "));
        Ok(if count.is_some_and(|count| count != "0") { Ok(()) } else { Err(told) })
    })?;
    let end = ended(&node, "hungry")?;
    ensure!(end == ("OOMKilled".to_owned(), 137), "{end:?}");
    node.remove_manifest("busy.yaml")?;
    node.remove_manifest("hungry.yaml")?;
    node.wait_for_no_pod_cgroup()?;
    node.stop()
}

/// A pod whose uid stays, whatever else changes.
fn resizable(cpu: u32, memory: u32) -> String {
    let resources = format!(
        "resources: {{requests: {{cpu: {cpu}m, memory: 16Mi}}, \
         limits: {{cpu: {}m, memory: {memory}Mi}}}}",
        2 * cpu
    );
    let pod = pod("web", "[sleep, forever]", &resources);
    pod.replace("{name: web}", "{name: web, uid: 11111111-2222-3333-4444-555555555555}")
}

#[test]
fn a_pod_is_resized_as_it_runs_and_never_below_what_it_uses() -> Result<()> {
    let mut node = VmNode::start()?;
    node.write_manifest("web.yaml", &resizable(100, 32))?;
    node.start_agent()?;
    let before = node.wait_running("web", "main")?;
    let (of_pod, _) = before.cgroup.rsplit_once('/').context("a cgroup has a path")?;
    for (cpu, memory) in [(200, 64), (50, 24)] {
        node.write_manifest("web.yaml", &resizable(cpu, memory))?;
        for cgroup in [&before.cgroup, of_pod] {
            node.until("the kernel has it", || {
                let max = node.cgroup_file(cgroup, "cpu.max")?;
                let limit = node.cgroup_file(cgroup, "memory.max")?;
                let has = max == format!("{} 100000", cpu * 200)
                    && limit == (u64::from(memory) << 20).to_string();
                Ok(if has { Ok(()) } else { Err(format!("{cgroup}: {max}, {limit}")) })
            })?;
        }
    }
    // A page is less than it uses, and the kernel would kill it.
    let small = resizable(50, 24).replace("memory: 16Mi", "memory: 4Ki").replace("24Mi", "4Ki");
    node.write_manifest("web.yaml", &small)?;
    node.wait_for_log(&["ResizeError", "below current usage"])?;
    let after = node.container(&before.id)?;
    ensure!(after.pid == before.pid, "{before:?}, then {after:?}");
    node.remove_manifest("web.yaml")?;
    node.wait_for_no_pod_cgroup()?;
    node.stop()
}

/// Forbids what no workload does otherwise.
const PROFILE: &str = "
#include <tunables/global>
profile ferrolet-test flags=(attach_disconnected,mediate_deleted) {
  file,
  signal,
  deny /forbidden w,
}
";

#[test]
fn a_pod_runs_under_the_apparmor_profile_that_it_asks_for() -> Result<()> {
    let unpacked = Cache::from_env()?.parts().vm().join("apparmor");
    let mut root = Root::default();
    root.program("/sbin/apparmor_parser", &unpacked.join("sbin/apparmor_parser"))?;
    root.tree("/etc/apparmor.d", &unpacked.join("etc/apparmor.d"))?;
    root.text("/etc/ferrolet-test.profile", PROFILE);
    let mut node = VmNode::start_with(VmOptions { root, ..VmOptions::default() })?;
    let load = ["apparmor_parser", "--add", "--skip-cache", "/etc/ferrolet-test.profile"];
    node.vm().output(&load, PATIENCE)?;
    let profile = |kind: &str| format!("securityContext: {{appArmorProfile: {{{kind}}}}}");
    let localhost = profile("type: Localhost, localhostProfile: ferrolet-test");
    let pods = [
        ("silent", String::new(), "cri-containerd.apparmor.d (enforce)"),
        ("default", profile("type: RuntimeDefault"), "cri-containerd.apparmor.d (enforce)"),
        ("own", localhost.clone(), "ferrolet-test (enforce)"),
        ("free", profile("type: Unconfined"), "unconfined"),
    ];
    for (name, more, _) in &pods {
        let manifest = pod(name, "[cat, /proc/self/attr/current]", more);
        node.write_manifest(&format!("{name}.yaml"), &manifest)?;
    }
    let forbidden = pod("forbidden", "[write, /forbidden, text]", &localhost);
    node.write_manifest("forbidden.yaml", &forbidden)?;
    node.start_agent()?;
    for (name, _, expected) in &pods {
        ended(&node, name)?;
        let said = node.pod_log(name, "main")?;
        ensure!(said.trim_end().ends_with(&format!(" stdout F {expected}")), "{name}: {said}");
    }
    let (_, code) = ended(&node, "forbidden")?;
    let said = node.pod_log("forbidden", "main")?;
    ensure!(code == 125 && said.contains("Permission denied"), "{code}: {said}");
    node.stop()
}

/// What systemd thinks of the agent.
fn property(node: &VmNode, name: &str) -> Result<String> {
    let argv = ["systemctl", "show", "ferrolet", "--property", name, "--value"];
    Ok(node.vm().output(&argv, PATIENCE)?.trim().to_owned())
}

/// What the unit of the examples has here otherwise: no targets of a whole system, and the agent of the test.
fn drop_in() -> String {
    format!(
        "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=\nExecStart=/bin/{}\n\
         StandardOutput=truncate:{log}\nStandardError=truncate:{log}\n",
        VmNode::agent_command().join(" "),
        log = VmNode::AGENT_LOG,
    )
}

#[test]
fn systemd_hears_that_the_agent_is_ready_and_starts_it_again_and_pods_notice_nothing() -> Result<()>
{
    let mut root = Root::default();
    let init = vm::put_systemd(&mut root)?;
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/systemd/ferrolet.service");
    root.copy("/etc/systemd/system/ferrolet.service", &unit);
    root.text("/etc/systemd/system/ferrolet.service.d/here.conf", drop_in());
    let options = VmOptions { root, init: Some(init), ..VmOptions::default() };
    let node = VmNode::start_with(options)?;
    ensure!(node.vm().read("/proc/1/comm")?.trim() == "systemd");
    node.write_manifest("sleeper.yaml", &pod("sleeper", "[sleep, forever]", ""))?;
    node.vm().output(&["systemctl", "start", "ferrolet"], PATIENCE)?;
    ensure!(property(&node, "ActiveState")? == "active");
    ensure!(property(&node, "StatusText")? == "keeps the pods of this node");
    let before = node.wait_running("sleeper", "main")?;

    let agent: i32 = property(&node, "MainPID")?.parse()?;
    node.vm().signal(agent, 9)?;
    node.until("another agent is ready", || {
        let (state, pid) = (property(&node, "ActiveState")?, property(&node, "MainPID")?);
        let another = state == "active" && pid != agent.to_string();
        Ok(if another { Ok(()) } else { Err(format!("{state}, {pid}")) })
    })?;
    node.wait_for_log(&["pod is as specified", "sleeper"])?;
    let after = node.container(&before.id)?;
    ensure!(after.pid == before.pid, "{before:?}, then {after:?}");

    node.vm().output(&["systemctl", "stop", "ferrolet"], PATIENCE)?;
    let state = (property(&node, "ActiveState")?, property(&node, "Result")?);
    ensure!(state == ("inactive".to_owned(), "success".to_owned()), "{state:?}");
    let after = node.container(&before.id)?;
    ensure!(after.pid == before.pid, "{before:?}, then {after:?}");
    node.stop()
}

#[test]
fn systemd_makes_the_cgroups_of_pods_and_the_kernel_has_of_limits_what_it_should() -> Result<()> {
    let mut root = Root::default();
    let init = Some(vm::put_systemd(&mut root)?);
    let mut node = VmNode::start_with(VmOptions { root, init, systemd_cgroups: true })?;
    vm_limits::play(&mut node, &SYSTEMD)?;
    node.stop()
}
