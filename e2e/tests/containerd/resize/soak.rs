//! Rules that lower levels test too: `make soak PART=end-to-end` runs these.
#![allow(clippy::wildcard_imports, reason = "tests of the module above, run elsewhere")]

use super::*;

#[test]
fn static_pod_with_fixed_uid_is_resized_in_place() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("web.yaml", &pod(&sized(100, 32), ""))?;
    node.start_agent()?;
    let before = node.wait_running("web")?;
    let own = cgroup_of(&node, "web")?;
    let container = format!("{own}/{}", before.id);
    for size in [(100, 32), (200, 64), (50, 16)] {
        node.write_manifest("web.yaml", &pod(&sized(size.0, size.1), ""))?;
        wait_sized(&node, &container, size.0, size.1)?;
        wait_sized(&node, &own, size.0, size.1)?;
        let status = wait_for_status(&node, "it is over", |status| {
            let container = &status["containerStatuses"][0];
            container["resources"]["requests"]["cpu"] == format!("{}m", size.0)
                && condition(status, "PodResizeInProgress").is_none()
        })?;
        let container = &status["containerStatuses"][0];
        ensure!(
            container["allocatedResources"] == container["resources"]["requests"],
            "{container}"
        );
        ensure!(
            container["resources"]["limits"]["memory"] == format!("{}Mi", 2 * size.1),
            "{container}"
        );
    }
    let after = node.wait_running("web")?;
    ensure!((&after.id, after.pid) == (&before.id, before.pid), "{before:?}, then {after:?}");
    // The next agent changes nothing.
    node.kill_agent()?;
    node.start_agent()?;
    node.wait_for_log(&["Pod synced", "web"])?;
    let described = node.wait_for_answer(&["describe", "web"], "50m")?;
    ensure!(!described.contains("PodResize"), "{described}");
    wait_sized(&node, &container, 50, 16)?;
    ensure!(node.wait_running("web")?.pid == before.pid);
    node.remove_manifest("web.yaml")?;
    wait_for_none(&node)?;
    node.stop()
}

#[test]
fn pod_level_resize_resizes_the_pod_and_its_containers() -> Result<()> {
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
        wait_sized(&node, &own, size.0, size.1)?;
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

/// After each fault of the call, the pod gets its resources and its process keeps running.
#[test]
fn failed_resize_is_retried_until_it_succeeds() -> Result<()> {
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
    // One for each fault: the retry of a pod takes 10 to 15 s.
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
        wait_sized(&node, &container, 110, 32)?;
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
