//! Resizes of a running pod.

use anyhow::{Context, Result, ensure};
use e2e::vm_limits::has;
use e2e::vm_node::VmNode;
use e2e::vm_status::condition;

use super::pod;

/// A pod with a fixed UID, and limits of twice its requests.
fn resizable(cpu: u32, memory: &str) -> String {
    let resources = format!(
        "resources: {{requests: {{cpu: {cpu}m, memory: 4Ki}}, \
         limits: {{cpu: {}m, memory: {memory}}}}}",
        2 * cpu
    );
    let pod = pod("web", "[sleep, forever]", &resources);
    pod.replace("{name: web}", "{name: web, uid: 11111111-2222-3333-4444-555555555555}")
}

/// A size: requests of CPU and memory, and the CPU weight of the pod by the kubelet's formula and of the container by
/// the runtime's.
const SIZES: [(u32, u32, &str, &str); 3] =
    [(100, 48, "4", "17"), (200, 96, "8", "29"), (50, 32, "2", "11")];

/// Waits until files of a cgroup have these values.
fn wait_for(node: &VmNode, cgroup: &str, values: &[(&str, &str)]) -> Result<()> {
    node.until("the kernel has it", || {
        Ok(has(node, cgroup, values).map_err(|error| error.to_string()))
    })
}

/// Resizes a pod. The agent runs already.
pub(crate) fn play(node: &VmNode, burstable: &str) -> Result<()> {
    let (cpu, memory, ..) = SIZES[0];
    node.write_manifest("web.yaml", &resizable(cpu, &format!("{memory}Mi")))?;
    let before = node.wait_running("web", "main")?;
    let (of_pod, _) = before.cgroup.rsplit_once('/').context("a cgroup has a path")?;
    for (cpu, memory, of_whole, of_container) in SIZES {
        node.write_manifest("web.yaml", &resizable(cpu, &format!("{memory}Mi")))?;
        let limit = format!("{}m", 2 * cpu);
        node.wait_for_status("web", &format!("it has {cpu}m"), |status| {
            let container = &status["containerStatuses"][0];
            let has = container["resources"]["limits"]["cpu"] == limit.as_str()
                && container["allocatedResources"]["cpu"] == format!("{cpu}m")
                && condition(status, "PodResizeInProgress").is_none();
            has.then_some(())
        })?;
        let (max, limit) = (format!("{} 100000", cpu * 200), (u64::from(memory) << 20).to_string());
        for (cgroup, weight) in [(of_pod, of_whole), (&*before.cgroup, of_container)] {
            let values = [("cpu.max", &*max), ("memory.max", &*limit), ("cpu.weight", weight)];
            wait_for(node, cgroup, &values)?;
        }
        wait_for(node, burstable, &[("cpu.weight", of_whole)])?;
    }
    // A page is less than it uses, and the kernel would kill it.
    node.write_manifest("web.yaml", &resizable(50, "4Ki"))?;
    node.wait_for_log(&["ResizeError", "below current usage"])?;
    let message = node.wait_for_status("web", "the resize reports its error", |status| {
        let progress = condition(status, "PodResizeInProgress");
        progress.and_then(|(reason, message)| (reason == "Error").then_some(message))
    })?;
    ensure!(message.contains("memory limit (4096) below current usage"), "{message}");
    has(node, &before.cgroup, &[("memory.max", &(32 << 20).to_string())])?;
    let after = node.container(&before.id)?;
    ensure!(after.pid == before.pid, "{before:?}, then {after:?}");
    node.remove_manifest("web.yaml")?;
    node.wait_for_no_pod_cgroup()
}

#[test]
fn running_pod_is_resized_but_not_below_its_memory_usage() -> Result<()> {
    let mut node = VmNode::start()?;
    node.start_agent()?;
    play(&node, "/kubepods/burstable")?;
    node.stop()
}
