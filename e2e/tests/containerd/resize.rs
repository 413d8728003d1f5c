//! Resizes of running pods, on a real kernel.

mod soak;

use anyhow::{Context, Result, ensure};
use e2e::node::{NODE_NAME, Node, PATIENCE};
use serde_json::Value as Json;
use testbed::wait;

use crate::cgroups::{Value, cgroup_of, has, wait_for_none};

/// A pod with a fixed UID.
fn pod(resources: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, uid: 11111111-2222-3333-4444-555555555555}}\n\
         spec:\n  terminationGracePeriodSeconds: 2\n  containers:\n  - name: main\n    \
         image: ferrolet.test/workload:1\n    args: [sleep, forever]\n    \
         resources: {{{resources}}}\n    {more}\n"
    )
}

fn sized(cpu: u32, memory: u32) -> String {
    format!(
        "requests: {{cpu: {cpu}m, memory: {memory}Mi}}, limits: {{cpu: {}m, memory: {}Mi}}",
        2 * cpu,
        2 * memory
    )
}

/// Waits until a cgroup has a size.
fn wait_sized(node: &Node, cgroup: &str, cpu: u32, memory: u32) -> Result<()> {
    let (quota, memory) = ((cpu * 200).to_string(), (u64::from(memory) << 21).to_string());
    let (shares, max) = (cpu * 1024 / 1000, format!("{quota} 100000"));
    let (weight, shares) = (weight(cgroup, shares), shares.to_string());
    let values: [Value<'_>; 3] = [
        ("cpu", "cpu.shares", &shares, "cpu.weight", &weight),
        ("cpu", "cpu.cfs_quota_us", &quota, "cpu.max", &max),
        ("memory", "memory.limit_in_bytes", &memory, "memory.max", &memory),
    ];
    node.explained(wait::until(&format!("{cgroup} has {cpu}m"), PATIENCE, || {
        Ok(has(node, cgroup, &values).map_err(|error| error.to_string()))
    }))
}

/// The CPU weight in cgroup v2 in place of shares: of a pod by the kubelet's formula, of a container by the runtime's.
fn weight(cgroup: &str, shares: u32) -> String {
    let is_pod = cgroup.rsplit('/').next().is_some_and(|name| name.starts_with("pod"));
    if is_pod {
        return (1 + (shares - 2) * 9999 / 262_142).to_string();
    }
    let power = f64::from(shares).log2();
    format!("{:.0}", 10_f64.powf((power * power + 125.0 * power) / 612.0 - 7.0 / 34.0).ceil())
}

#[test]
fn cpu_shares_become_weights_by_the_writers_formula() {
    for (shares, of_pod, of_container) in [(51, "2", "11"), (102, "4", "17"), (256, "10", "35")] {
        assert_eq!(weight("/kubepods/burstable/pod1", shares), of_pod);
        assert_eq!(weight("/kubepods/burstable/pod1/2f", shares), of_container);
    }
}

/// The status of the pod.
fn status(node: &Node, pod: &str) -> Result<Json> {
    let output = node.ferrolet(&["get", "pods", "-o", "json"])?;
    let list: Json = serde_json::from_str(&output).context("read the list of pods")?;
    let name = format!("{pod}-{NODE_NAME}");
    let items = list["items"].as_array().context("there are pods")?;
    let pod = items.iter().find(|item| item["metadata"]["name"] == name.as_str());
    Ok(pod.context("the pod is in the list")?["status"].clone())
}

fn condition(status: &Json, kind: &str) -> Option<(String, String)> {
    let found = status["conditions"].as_array()?.iter().find(|one| one["type"] == kind)?;
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    Some((text("reason"), text("message")))
}

fn wait_for_status(node: &Node, what: &str, is: impl Fn(&Json) -> bool) -> Result<Json> {
    node.explained(wait::until(what, PATIENCE, || {
        let status = status(node, "web")?;
        Ok(if is(&status) { Ok(status) } else { Err(status.to_string()) })
    }))
}

// behaviour: RSZ-4, RSZ-12
#[test]
fn resize_restarts_container_by_policy_and_reports_infeasible_ones() -> Result<()> {
    let mut node = Node::start()?;
    let policy = "resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]";
    node.write_manifest("web.yaml", &pod(&sized(100, 32), policy))?;
    node.start_agent()?;
    let before = node.wait_running("web")?;
    let own = cgroup_of(&node, "web")?;
    node.write_manifest("web.yaml", &pod(&sized(100, 64), policy))?;
    let anew = node.wait_for_containers("web", "another container runs", |containers| {
        e2e::node::one_running(containers).filter(|one| one.id != before.id)
    })?;
    wait_sized(&node, &format!("{own}/{}", anew.id), 100, 64)?;
    wait_sized(&node, &own, 100, 64)?;
    wait_for_status(&node, "it was restarted", |status| {
        status["containerStatuses"][0]["restartCount"] == 1
    })?;
    // Guaranteed is another QoS class.
    node.write_manifest("web.yaml", &pod("limits: {cpu: 1, memory: 128Mi}", policy))?;
    let status = wait_for_status(&node, "the resize is pending", |status| {
        condition(status, "PodResizePending").is_some()
    })?;
    let message = "Pod QOS Class may not change as a result of resizing".to_owned();
    let expected = Some(("Infeasible".to_owned(), message));
    ensure!(condition(&status, "PodResizePending") == expected, "{status}");
    ensure!(node.wait_running("web")?.id == anew.id, "it keeps running");
    // More than the node has: the resize is deferred.
    node.write_manifest("web.yaml", &pod(&sized(900_000, 64), policy))?;
    let status = wait_for_status(&node, "it waits", |status| {
        condition(status, "PodResizePending").is_some_and(|(reason, _)| reason == "Deferred")
    })?;
    ensure!(status["phase"] == "Running", "{status}");
    node.remove_manifest("web.yaml")?;
    wait_for_none(&node)?;
    node.stop()
}
