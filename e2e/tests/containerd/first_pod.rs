//! One pod from a manifest: it runs, is restarted, and keeps running without the agent.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use e2e::node::{NODE_NAME, Node, one_running};

const SLEEPER: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: sleeper
spec:
  terminationGracePeriodSeconds: 5
  containers:
  - name: main
    image: ferrolet.test/workload:1
    args: [sleep, forever]
";

#[test]
fn pod_runs_with_its_command_and_environment_and_logs_to_its_log_file() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest(
        "greeter.yaml",
        "
apiVersion: v1
kind: Pod
metadata:
  name: greeter
  namespace: town
  uid: 0c6e5f5e-0000-4000-8000-000000000001
spec:
  restartPolicy: Never
  containers:
  - name: arguments
    image: ferrolet.test/workload:1
    command: [/workload, args]
    args: [hello, $(WHO), $$(WHO), $(UNDEFINED)]
    env: [{name: WHO, value: world}]
  - name: environment
    image: ferrolet.test/workload:1
    args: [env]
    env:
    - {name: FIRST, value: one}
    - {name: SECOND, value: $(FIRST) and two}
",
    )?;
    node.start_agent()?;
    node.wait_for_log(&["Pod terminated and cleaned up", "town/greeter"])?;
    let logs =
        format!("/var/log/pods/town_greeter-{NODE_NAME}_0c6e5f5e-0000-4000-8000-000000000001");
    let arguments = node.read(&format!("{logs}/arguments/0.log"))?;
    let words: Vec<&str> =
        arguments.lines().filter_map(|line| line.split(" stdout F ").nth(1)).collect();
    ensure!(words == ["hello", "world", "$(WHO)", "$(UNDEFINED)"], "{arguments}");
    let environment = node.read(&format!("{logs}/environment/0.log"))?;
    for expected in ["FIRST=one", "SECOND=one and two", &format!("HOSTNAME=greeter-{NODE_NAME}")] {
        ensure!(environment.contains(&format!(" stdout F {expected}\n")), "{environment}");
    }
    let links = node.names_in("/var/log/containers")?;
    let prefix = format!("greeter-{NODE_NAME}_town_arguments-");
    let link = links.iter().find(|link| link.starts_with(&prefix));
    let link = link.with_context(|| format!("no link {prefix}* in {links:?}"))?;
    let linked = node.read(&format!("/var/log/containers/{link}"))?;
    ensure!(linked == arguments, "{link}: {linked}");
    node.stop()
}

#[test]
fn container_has_masked_and_read_only_proc_paths() -> Result<()> {
    let mut node = Node::start()?;
    let pod = SLEEPER
        .replace("sleeper", "curious")
        .replace("spec:", "spec:\n  restartPolicy: Never")
        .replace("[sleep, forever]", "[cat, /proc/self/mounts]");
    node.write_manifest("curious.yaml", &pod)?;
    node.start_agent()?;
    node.wait_for_log(&["Pod terminated and cleaned up", "curious"])?;
    let log = node.run("sh", &["-c", "cat /var/log/pods/*curious*/main/0.log"])?;
    // device, mount point, type and options of each mount, after the log's own columns
    let options = |place: &str| {
        let mounts = log.lines().filter_map(|line| line.split(" stdout F ").nth(1));
        let mut columns = mounts.map(|mount| mount.split(' ').collect::<Vec<_>>());
        columns.find(|columns| columns.get(1) == Some(&place)).map(|columns| columns[3].to_owned())
    };
    ensure!(options("/proc/sys").is_some(), "{log}");
    // Not every kernel has all of them.
    let places = ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"];
    for place in places.into_iter().filter(|place| Path::new(place).exists()) {
        let read_only = options(place).is_some_and(|options| options.starts_with("ro,"));
        ensure!(read_only, "{place} is writable: {log}");
    }
    let masked = |place: &str| options(place).is_some() || !Path::new(place).exists();
    ensure!(masked("/proc/kcore") && masked("/proc/keys"), "the kernel can be read: {log}");
    node.stop()
}

#[test]
fn killed_container_is_restarted_with_the_next_attempt_number() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("sleeper.yaml", SLEEPER)?;
    node.start_agent()?;
    let first = node.wait_running("sleeper")?;
    node.run("kill", &["-9", &first.pid.to_string()])?;
    let second = node.wait_for_containers("sleeper", "another container runs", |containers| {
        one_running(containers).filter(|running| running.id != first.id)
    })?;
    ensure!(second.pid != first.pid);
    let logs = node.run("find", &["/var/log/pods", "-name", "1.log"])?;
    ensure!(logs.lines().count() == 1, "no log for the first restart: {logs}");
    node.stop()
}

#[test]
fn agent_restart_after_a_kill_changes_no_container() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("sleeper.yaml", SLEEPER)?;
    node.start_agent()?;
    let before = node.wait_running("sleeper")?;
    node.kill_agent()?;
    let after = node.wait_running("sleeper")?;
    ensure!(before == after, "the pod did not survive the agent: {before:?}, then {after:?}");
    node.start_agent()?;
    // The new agent has synced the pod and changed nothing.
    node.wait_for_log(&["Pod synced", "sleeper"])?;
    let adopted = node.wait_running("sleeper")?;
    ensure!(adopted == before, "the agent touched the pod: {before:?}, then {adopted:?}");
    node.run("kill", &["-9", &adopted.pid.to_string()])?;
    node.wait_for_containers("sleeper", "another container runs", |containers| {
        one_running(containers).filter(|running| running.id != adopted.id)
    })?;
    let sandboxes = sandboxes(&node)?;
    ensure!(sandboxes == 1, "{sandboxes} sandboxes");
    node.stop()
}

#[test]
fn sigterm_stops_the_agent_and_leaves_the_pod_running() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("sleeper.yaml", SLEEPER)?;
    node.start_agent()?;
    let before = node.wait_running("sleeper")?;
    let status = node.stop_agent()?;
    ensure!(status.success(), "{status}");
    let after = node.wait_running("sleeper")?;
    ensure!(before == after, "{before:?}, then {after:?}");
    node.start_agent()?;
    node.wait_for_log(&["Pod synced", "sleeper"])?;
    let adopted = node.wait_running("sleeper")?;
    ensure!(adopted == before, "{before:?}, then {adopted:?}");
    node.stop()
}

#[test]
fn pod_stops_with_its_manifest_and_is_replaced_when_it_changes() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("sleeper.yaml", SLEEPER)?;
    node.start_agent()?;
    let first = node.wait_running("sleeper")?;
    node.write_manifest("sleeper.yaml", &SLEEPER.replace("forever", "1h"))?;
    node.wait_for_containers("sleeper", "the changed pod runs", |containers| {
        one_running(containers).filter(|running| running.id != first.id)
    })?;
    node.remove_manifest("sleeper.yaml")?;
    node.wait_for_containers("sleeper", "nothing of the pod runs", |containers| {
        containers.iter().all(|container| container.state != "RUNNING").then_some(())
    })?;
    node.stop()
}

#[test]
fn pod_is_stopped_when_its_manifest_was_removed_without_an_agent() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("sleeper.yaml", SLEEPER)?;
    node.start_agent()?;
    node.wait_running("sleeper")?;
    node.stop_agent()?;
    node.remove_manifest("sleeper.yaml")?;
    node.start_agent()?;
    node.wait_for_containers("sleeper", "nothing of the pod runs", |containers| {
        containers.iter().all(|container| container.state != "RUNNING").then_some(())
    })?;
    node.stop()
}

#[test]
fn restart_policy_decides_whether_a_container_is_restarted() -> Result<()> {
    let mut node = Node::start()?;
    let pod = |name: &str, policy: &str, code: u8| {
        SLEEPER
            .replace("sleeper", name)
            .replace("spec:", &format!("spec:\n  restartPolicy: {policy}"))
            .replace("[sleep, forever]", &format!("[exit, \"{code}\"]"))
    };
    for (name, policy, code) in
        [("once", "Never", 3), ("retried", "OnFailure", 3), ("done", "OnFailure", 0)]
    {
        node.write_manifest(&format!("{name}.yaml"), &pod(name, policy, code))?;
    }
    node.start_agent()?;
    for name in ["once", "done"] {
        node.wait_for_log(&["Pod terminated and cleaned up", name])?;
    }
    // Its containers cannot be counted: GC may remove the first before the second is seen.
    node.wait_for_log(&["Container started", "retried", "it ended with exit code 3"])?;
    node.wait_for_log(&["CrashLoopBackOff", "retried"])?;
    for name in ["once", "done"] {
        node.wait_for_containers(name, "it ran once", |containers| {
            (containers.len() == 1).then_some(())
        })?;
    }
    node.stop()
}

#[test]
fn invalid_manifests_are_logged_and_valid_ones_run() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("a-syntax.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: x\n")?;
    node.write_manifest("b-field.yaml", &SLEEPER.replace("name: main", "name: Main!"))?;
    let gates = "spec:\n  readinessGates: [{conditionType: x}]";
    let unsupported = SLEEPER.replace("sleeper", "unsupported").replace("spec:", gates);
    node.write_manifest("c-unsupported.yaml", &unsupported)?;
    node.write_manifest("z-good.yaml", SLEEPER)?;
    node.start_agent()?;
    node.wait_running("sleeper")?;
    node.wait_for_log(&["Manifest rejected", "a-syntax.yaml", "line"])?;
    node.wait_for_log(&["Manifest rejected", "b-field.yaml", "spec.containers[0].name"])?;
    node.wait_for_log(&["unsupported", "spec.readinessGates"])?;
    node.stop()
}

#[test]
fn runtime_restart_restarts_no_pod() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("sleeper.yaml", SLEEPER)?;
    node.start_agent()?;
    let before = node.wait_running("sleeper")?;
    node.restart_runtime()?;
    let after = node.wait_running("sleeper")?;
    ensure!(before == after, "{before:?}, then {after:?}");
    node.run("kill", &["-9", &after.pid.to_string()])?;
    node.wait_for_containers("sleeper", "another container runs", |containers| {
        one_running(containers).filter(|running| running.id != after.id)
    })?;
    node.stop()
}

fn sandboxes(node: &Node) -> Result<usize> {
    let containers = e2e::containerd::containers(node.instance())?;
    Ok(containers.iter().filter(|container| container.name.is_empty()).count())
}
