//! Rejection of pods and preemption, on a real machine.

mod soak;

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

pub(crate) fn requesting(name: &str, spec: &str, cpu: &str) -> String {
    pod(name, spec, &format!("resources: {{requests: {{cpu: {cpu}}}}}"))
}

/// The status of a pod that failed for a reason.
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

/// The runtime never got a request for the pod.
pub(crate) fn is_untouched(node: &Node, pod: &str) -> Result<()> {
    let name = format!("{pod}-{NODE_NAME}");
    let containers = containerd::containers(node.instance())?;
    let of_pod: Vec<_> = containers.iter().filter(|one| one.pod == name).collect();
    ensure!(of_pod.is_empty(), "{of_pod:?}");
    Ok(())
}

/// The number of the machine's CPUs.
pub(crate) fn processors(node: &Node) -> Result<u32> {
    let count = node.run("getconf", &["_NPROCESSORS_ONLN"])?;
    count.trim().parse().context("count the processors")
}

// behaviour: ADM-16
#[test]
fn pod_above_the_node_resources_is_rejected_without_runtime_calls() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("big.yaml", &requesting("big", "", "1000"))?;
    node.write_manifest("small.yaml", &requesting("small", "", "10m"))?;
    node.start_agent()?;
    node.wait_running("small")?;
    let has = i64::from(processors(&node)?);
    let missing = (1000 - has) * 1000;
    let status = failed(&node, "big", "UnexpectedAdmissionError")?;
    let message = status["message"].as_str().unwrap_or_default();
    ensure!(message.starts_with("Pod was rejected: Unexpected error while"), "{message}");
    let needs = format!("the pod requests 1000, the node has {has}, other pods request ");
    let needs = format!("[(res: cpu, q: {missing}), ]. Not enough cpu: {needs}");
    ensure!(message.contains(&needs), "{message}");
    let described = node.ferrolet(&["describe", "big"])?;
    ensure!(described.contains("UnexpectedAdmissionError"), "{described}");
    ensure!(described.contains("Not enough cpu: the pod requests"), "{described}");
    let table = node.ferrolet(&["get", "pods"])?;
    ensure!(table.contains("UnexpectedAdmissionError"), "{table}");
    is_untouched(&node, "big")?;
    node.stop()
}
