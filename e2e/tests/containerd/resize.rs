//! Pods whose resources change while they run, on a real kernel.

use anyhow::{Context, Result, ensure};
use e2e::node::{NODE_NAME, Node, PATIENCE};
use serde_json::Value as Json;
use testbed::wait;

use crate::cgroups::{Value, cgroup_of, has, wait_for_none};

/// A pod whose uid stays, whatever else changes.
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

/// What the kernel has of such a size.
fn wait_sized(node: &Node, cgroup: &str, (cpu, memory): (u32, u32)) -> Result<()> {
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

/// What the second version of cgroups has in place of shares: of a pod by the kubelet's arithmetic, of a
/// container by the runtime's, which is another.
fn weight(cgroup: &str, shares: u32) -> String {
    let is_pod = cgroup.rsplit('/').next().is_some_and(|name| name.starts_with("pod"));
    if is_pod {
        return (1 + (shares - 2) * 9999 / 262_142).to_string();
    }
    let power = f64::from(shares).log2();
    format!("{:.0}", 10_f64.powf((power * power + 125.0 * power) / 612.0 - 7.0 / 34.0).ceil())
}

#[test]
fn shares_are_weights_by_the_arithmetic_of_who_writes_them() {
    for (shares, of_pod, of_container) in [(51, "2", "11"), (102, "4", "17"), (256, "10", "35")] {
        assert_eq!(weight("/kubepods/burstable/pod1", shares), of_pod);
        assert_eq!(weight("/kubepods/burstable/pod1/2f", shares), of_container);
    }
}

/// What the agent tells of the pod.
fn status(node: &Node, pod: &str) -> Result<Json> {
    let told = node.ask(&["get", "pods", "-o", "json"])?;
    let told: Json = serde_json::from_str(&told).context("read what the agent tells")?;
    let name = format!("{pod}-{NODE_NAME}");
    let items = told["items"].as_array().context("there are pods")?;
    let pod = items.iter().find(|item| item["metadata"]["name"] == name.as_str());
    Ok(pod.context("the pod is told")?["status"].clone())
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

// behaviour: RSZ-11, RSZ-20
#[test]
fn a_static_pod_with_a_fixed_uid_is_resized_and_its_process_notices_nothing() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("web.yaml", &pod(&sized(100, 32), ""))?;
    node.start_agent()?;
    let before = node.wait_running("web")?;
    let own = cgroup_of(&node, "web")?;
    let container = format!("{own}/{}", before.id);
    for size in [(100, 32), (200, 64), (50, 16)] {
        node.write_manifest("web.yaml", &pod(&sized(size.0, size.1), ""))?;
        wait_sized(&node, &container, size)?;
        wait_sized(&node, &own, size)?;
        let status = wait_for_status(&node, "it is over", |status| {
            let told = &status["containerStatuses"][0];
            told["resources"]["requests"]["cpu"] == format!("{}m", size.0)
                && condition(status, "PodResizeInProgress").is_none()
        })?;
        let told = &status["containerStatuses"][0];
        ensure!(told["allocatedResources"] == told["resources"]["requests"], "{told}");
        ensure!(told["resources"]["limits"]["memory"] == format!("{}Mi", 2 * size.1), "{told}");
    }
    let after = node.wait_running("web")?;
    ensure!((&after.id, after.pid) == (&before.id, before.pid), "{before:?}, then {after:?}");
    // Another agent finds all as it should be.
    node.kill_agent()?;
    node.start_agent()?;
    node.wait_for_log(&["pod is as specified", "web"])?;
    let described = node.wait_for_answer(&["describe", "web"], "50m")?;
    ensure!(!described.contains("PodResize"), "{described}");
    wait_sized(&node, &container, (50, 16))?;
    ensure!(node.wait_running("web")?.pid == before.pid);
    node.remove_manifest("web.yaml")?;
    wait_for_none(&node)?;
    node.stop()
}

// behaviour: RSZ-13, RSZ-20
#[test]
fn a_pod_is_resized_as_a_whole_and_its_containers_with_it() -> Result<()> {
    let mut node = Node::start()?;
    let whole = |(cpu, memory): (u32, u32)| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, uid: 11111111-2222-3333-4444-555555555555}}\n\
             spec:\n  terminationGracePeriodSeconds: 2\n  resources: {{{}}}\n  containers:\n  \
             - {{name: main, image: 'ferrolet.test/workload:1', args: [sleep, forever]}}\n",
            sized(cpu, memory)
        )
    };
    node.write_manifest("web.yaml", &whole((100, 32)))?;
    node.start_agent()?;
    let before = node.wait_running("web")?;
    let own = cgroup_of(&node, "web")?;
    let container = format!("{own}/{}", before.id);
    for size in [(100, 32), (200, 64), (50, 16)] {
        node.write_manifest("web.yaml", &whole(size))?;
        wait_sized(&node, &own, size)?;
        let memory = (u64::from(size.1) << 21).to_string();
        let limit: Value<'_> = ("memory", "memory.limit_in_bytes", &memory, "memory.max", &memory);
        node.explained(wait::until("the container has the limit of the pod", PATIENCE, || {
            Ok(has(&node, &container, &[limit]).map_err(|error| error.to_string()))
        }))?;
        wait_for_status(&node, "it is over", |status| {
            status["resources"]["limits"]["memory"] == format!("{}Mi", 2 * size.1)
                && status["resources"]["requests"]["cpu"] == format!("{}m", size.0)
                && status["allocatedResources"]["memory"] == format!("{}Mi", size.1)
                && condition(status, "PodResizeInProgress").is_none()
        })?;
    }
    ensure!(node.wait_running("web")?.pid == before.pid);
    node.remove_manifest("web.yaml")?;
    wait_for_none(&node)?;
    node.stop()
}

// behaviour: RSZ-4, RSZ-12
#[test]
fn a_container_that_asks_for_it_starts_anew_and_what_cannot_be_is_told() -> Result<()> {
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
    wait_sized(&node, &format!("{own}/{}", anew.id), (100, 64))?;
    wait_sized(&node, &own, (100, 64))?;
    wait_for_status(&node, "it was started anew", |status| {
        status["containerStatuses"][0]["restartCount"] == 1
    })?;
    // Guaranteed is another class.
    node.write_manifest("web.yaml", &pod("limits: {cpu: 1, memory: 128Mi}", policy))?;
    let told = wait_for_status(&node, "it is told", |status| {
        condition(status, "PodResizePending").is_some()
    })?;
    let message = "Pod QOS Class may not change as a result of resizing".to_owned();
    let expected = Some(("Infeasible".to_owned(), message));
    ensure!(condition(&told, "PodResizePending") == expected, "{told}");
    ensure!(node.wait_running("web")?.id == anew.id, "it goes on as it is");
    // More than the node has: it waits.
    node.write_manifest("web.yaml", &pod(&sized(900_000, 64), policy))?;
    let told = wait_for_status(&node, "it waits", |status| {
        condition(status, "PodResizePending").is_some_and(|(reason, _)| reason == "Deferred")
    })?;
    ensure!(told["phase"] == "Running", "{told}");
    node.remove_manifest("web.yaml")?;
    wait_for_none(&node)?;
    node.stop()
}

/// Whatever becomes of the call, the pod has its resources in the end and its process notices nothing.
#[test]
fn a_runtime_that_fails_to_resize_does_it_in_the_end() -> Result<()> {
    let (container_call, pod_call) = ("UpdateContainerResources", "UpdatePodSandboxResources");
    let faults = [
        (container_call, "unavailable"),
        (container_call, "hang"),
        (container_call, "late"),
        (pod_call, "unavailable"),
        (pod_call, "hang"),
    ];
    let mut node = Node::start()?;
    let proxy = node.put_proxy_before_runtime()?;
    node.configure("runtimeRequestTimeout: 2s")?;
    // One for each fault: a pod waits 10 to 15 s until it is tried again.
    let pods: Vec<String> = (0..faults.len()).map(|number| format!("web{number}")).collect();
    let write = |node: &Node, cpu: u32| {
        pods.iter().enumerate().try_for_each(|(number, name)| {
            let pod = pod(&sized(cpu, 32), "").replace("name: web", &format!("name: {name}"));
            let pod = pod.replace("-555555555555", &format!("-55555555555{number}"));
            node.write_manifest(&format!("{name}.yaml"), &pod)
        })
    };
    write(&node, 100)?;
    node.start_agent()?;
    let before = pods.iter().map(|pod| node.wait_running(pod)).collect::<Result<Vec<_>>>()?;
    for (method, fault) in faults {
        proxy.fault(&format!("{method}={fault} times=1"))?;
    }
    write(&node, 110)?;
    for (pod, before) in pods.iter().zip(&before) {
        let container = format!("{}/{}", cgroup_of(&node, pod)?, before.id);
        wait_sized(&node, &container, (110, 32))?;
        node.explained(wait::until(&format!("the resize of {pod} is over"), PATIENCE, || {
            let status = status(&node, pod)?;
            let is_over = condition(&status, "PodResizeInProgress").is_none();
            Ok(if is_over { Ok(()) } else { Err(status.to_string()) })
        }))?;
        ensure!(node.wait_running(pod)?.pid == before.pid, "{pod} was restarted");
    }
    let spoilt = proxy.spoilt()?;
    ensure!(spoilt.get(container_call) == Some(&3), "{spoilt:?}");
    ensure!(spoilt.get(pod_call) == Some(&2), "{spoilt:?}");
    node.stop()
}
