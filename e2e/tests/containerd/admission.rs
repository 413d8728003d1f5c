//! Pods that the node does not let in, and those that make room, on a real machine.

use anyhow::{Context, Result, ensure};
use e2e::containerd;
use e2e::node::{NODE_NAME, Node};
use serde_json::Value;

fn pod(name: &str, spec: &str, container: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  \
         terminationGracePeriodSeconds: 2\n  {spec}\n  containers:\n  - name: main\n    \
         image: ferrolet.test/workload:1\n    args: [sleep, forever]\n    {container}\n"
    )
}

pub(crate) fn asking(name: &str, spec: &str, cpu: &str) -> String {
    pod(name, spec, &format!("resources: {{requests: {{cpu: {cpu}}}}}"))
}

/// The status of a pod that has failed for a reason.
pub(crate) fn failed(node: &Node, pod: &str, reason: &str) -> Result<Value> {
    let list = node.wait_for_answer(&["get", "pods", "-o", "json"], reason)?;
    let list: Value = serde_json::from_str(&list).context("read the pod list")?;
    let name = format!("{pod}-{NODE_NAME}");
    let items = list["items"].as_array().context("a list of pods")?;
    let found = items.iter().find(|item| item["metadata"]["name"] == *name);
    let status = found.with_context(|| format!("no {name}: {list:#}"))?["status"].clone();
    ensure!(status["phase"] == "Failed" && status["reason"] == reason, "{pod}: {status:#}");
    Ok(status)
}

/// That the runtime never heard of a pod.
pub(crate) fn is_untouched(node: &Node, pod: &str) -> Result<()> {
    let name = format!("{pod}-{NODE_NAME}");
    let containers = containerd::containers(node.instance())?;
    let of_pod: Vec<_> = containers.iter().filter(|one| one.pod == name).collect();
    ensure!(of_pod.is_empty(), "{of_pod:?}");
    Ok(())
}

/// How many processors the machine has.
pub(crate) fn processors(node: &Node) -> Result<u32> {
    let count = node.run("getconf", &["_NPROCESSORS_ONLN"])?;
    count.trim().parse().context("count the processors")
}

// behaviour: ADM-16
#[test]
fn a_pod_that_asks_for_more_than_the_machine_has_never_touches_the_runtime() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("big.yaml", &asking("big", "", "1000"))?;
    node.write_manifest("small.yaml", &asking("small", "", "10m"))?;
    node.start_agent()?;
    node.wait_running("small")?;
    let missing = (1000 - i64::from(processors(&node)?)) * 1000;
    let status = failed(&node, "big", "UnexpectedAdmissionError")?;
    let message = status["message"].as_str().unwrap_or_default();
    ensure!(message.starts_with("Pod was rejected: Unexpected error while"), "{message}");
    ensure!(message.ends_with(&format!("[(res: cpu, q: {missing}), ]")), "{message}");
    let described = node.ask(&["describe", "big"])?;
    ensure!(described.contains("UnexpectedAdmissionError"), "{described}");
    let table = node.ask(&["get", "pods"])?;
    ensure!(table.contains("UnexpectedAdmissionError"), "{table}");
    is_untouched(&node, "big")?;
    node.stop()
}

// behaviour: ADM-19
#[test]
fn a_critical_pod_gets_the_place_of_a_lesser_one() -> Result<()> {
    let mut node = Node::start()?;
    let half = processors(&node)? * 500;
    let (lesser, critical) = (format!("{}m", half + 100), format!("{half}m"));
    node.write_manifest("lesser.yaml", &asking("lesser", "priority: 0", &lesser))?;
    node.write_manifest("beside.yaml", &asking("beside", "priority: 5", "10m"))?;
    node.start_agent()?;
    node.wait_running("lesser")?;
    let beside = node.wait_running("beside")?;
    let class = "priorityClassName: system-node-critical";
    node.write_manifest("critical.yaml", &asking("critical", class, &critical))?;
    node.wait_running("critical")?;
    let status = failed(&node, "lesser", "Preempting")?;
    ensure!(status["message"] == "Preempted in order to admit critical pod", "{status:#}");
    let conditions = status["conditions"].as_array().context("conditions")?;
    let target = conditions.iter().find(|one| one["type"] == "DisruptionTarget");
    let target = target.with_context(|| format!("no DisruptionTarget: {status:#}"))?;
    ensure!(target["reason"] == "TerminationByKubelet", "{target:#}");
    node.wait_for_containers("lesser", "it has ended", |containers| {
        containers.iter().all(|container| container.state != "RUNNING").then_some(())
    })?;
    ensure!(node.wait_running("beside")? == beside, "it was touched");
    let described = node.ask(&["describe", "lesser"])?;
    ensure!(described.contains("Preempting"), "{described}");
    node.stop()
}

// behaviour: ADM-4, ADM-6, ADM-21
#[test]
fn labels_and_ports_of_the_host_decide_who_runs() -> Result<()> {
    let mut node = Node::start()?;
    let port = "ports: [{containerPort: 80, hostPort: 18080}]";
    node.write_manifest("a.yaml", &pod("a-first", "nodeSelector: {disk: fast}", port))?;
    node.write_manifest("b.yaml", &pod("b-second", "", port))?;
    node.write_manifest("c.yaml", &pod("c-other", "nodeSelector: {disk: slow}", ""))?;
    node.start_agent_with_flags(&["--node-labels=disk=fast"])?;
    node.wait_running("a-first")?;
    let status = failed(&node, "b-second", "NodePorts")?;
    let why = "node(s) didn't have free ports for the requested pod ports";
    let expected = format!("Pod was rejected: Predicate NodePorts failed: {why}");
    ensure!(status["message"] == *expected, "{status:#}");
    let status = failed(&node, "c-other", "NodeAffinity")?;
    let why = "node(s) didn't match Pod's node affinity/selector";
    let expected = format!("Pod was rejected: Predicate NodeAffinity failed: {why}");
    ensure!(status["message"] == *expected, "{status:#}");
    is_untouched(&node, "b-second")?;
    is_untouched(&node, "c-other")?;
    node.stop()
}

// behaviour: ADM-17
#[test]
fn a_pod_that_runs_stays_when_more_is_kept_back() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("web.yaml", &asking("web", "", "500m"))?;
    node.start_agent()?;
    let before = node.wait_running("web")?;
    node.stop_agent()?;
    let reserved = processors(&node)? * 1000 - 100;
    node.configure(&format!("systemReserved: {{cpu: {reserved}m}}"))?;
    node.write_manifest("a-new.yaml", &asking("a-new", "", "50m"))?;
    node.start_agent()?;
    failed(&node, "a-new", "UnexpectedAdmissionError")?;
    node.wait_for_log(&["pod is as specified", "web"])?;
    let after = node.wait_running("web")?;
    ensure!(before == after, "{before:?}, then {after:?}");
    is_untouched(&node, "a-new")?;
    node.stop()
}
