//! Which process the kernel kills first when memory is short. Lowering a score takes a capability that the machine that
//! runs the tests may lack.

use anyhow::{Context, Result, ensure};
use e2e::vm_limits::{MEBIBYTE, has, oom_score, oom_score_of};
use e2e::vm_node::{CGROUPS, VmContainer, VmNode};

use super::pod;

const SIDECAR: &str = "initContainers:
  - name: sidecar
    image: ferrolet.test/workload:1
    args: [sleep, forever]
    restartPolicy: Always
  containers:";

/// The process of a pod's sandbox: its cgroup is a sibling of the containers' cgroups.
fn sandbox(node: &VmNode, container: &VmContainer) -> Result<VmContainer> {
    let (pod, _) = container.cgroup.rsplit_once('/').context("a cgroup has a path")?;
    let beside = node.vm().directories(&format!("{CGROUPS}{pod}"))?;
    let mut others = beside.iter().filter(|path| !path.ends_with(&container.cgroup));
    let path = others.next().with_context(|| format!("{pod} has no other cgroup"))?;
    let (_, id) = path.rsplit_once('/').context("a cgroup has a path")?;
    node.container(id)
}

#[test]
fn oom_killer_kills_the_lowest_qos_class_first() -> Result<()> {
    let mut node = VmNode::start()?;
    let resources = |which: &str| format!("resources: {{{which}}}");
    let sleeper = |name: &str, more: &str| pod(name, "[sleep, forever]", more);
    let with =
        |pod: &str, spec: &str| pod.replace("containers:", &format!("{spec}\n  containers:"));
    let (guaranteed, most, least) = (-997, 999, 1000);
    let [large, whole] = [256, 128].map(|size| oom_score_of(&node, size * MEBIBYTE));
    let (large, whole) = (large?, whole?);
    let all = resources("limits: {cpu: 100m, memory: 16Mi}");
    let memory = resources("requests: {memory: 256Mi}");
    let together = "resources: {requests: {memory: 128Mi}, limits: {memory: 200Mi}}";
    let pods = [
        ("all", sleeper("all", &all), guaranteed),
        // Its sidecar has no requests, and is killed no sooner than the main container.
        ("memory", sleeper("memory", &memory).replace("containers:", SIDECAR), large),
        ("whole", with(&sleeper("whole", ""), together), whole),
        ("cpu", sleeper("cpu", &resources("requests: {cpu: 10m}")), most),
        ("none", sleeper("none", ""), least),
        ("node", with(&sleeper("node", ""), "priorityClassName: system-node-critical"), guaranteed),
        (
            "cluster",
            with(&sleeper("cluster", ""), "priorityClassName: system-cluster-critical"),
            least,
        ),
    ];
    for (name, manifest, _) in &pods {
        node.write_manifest(&format!("{name}.yaml"), manifest)?;
    }
    node.start_agent()?;
    for (name, _, expected) in &pods {
        let container = node.wait_running(name, "main")?;
        let score = oom_score(&node, container.pid)?;
        ensure!(score == *expected, "{name}: {score}, not {expected}");
    }
    let sidecar = node.wait_running("memory", "sidecar")?;
    ensure!(oom_score(&node, sidecar.pid)? == large, "{sidecar:?}");
    // No part of a pod works without its sandbox, and no pod is managed without the agent.
    let least = node.wait_running("none", "main")?;
    ensure!(oom_score(&node, sandbox(&node, &least)?.pid)? == -998);
    ensure!(oom_score(&node, node.agent()?)? == -999);

    // The pod-level limit also holds for a container without its own.
    let whole = node.wait_running("whole", "main")?;
    let (of_pod, _) = whole.cgroup.rsplit_once('/').context("a cgroup has a path")?;
    for cgroup in [of_pod, &whole.cgroup] {
        has(&node, cgroup, &[("memory.max", &(200 * MEBIBYTE).to_string())])?;
    }
    for (name, ..) in &pods {
        node.remove_manifest(&format!("{name}.yaml"))?;
    }
    node.wait_for_no_pod_cgroup()?;
    node.stop()
}
