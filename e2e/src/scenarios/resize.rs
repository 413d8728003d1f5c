//! Resizes of a pod through its `resize` subresource.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::api::Patch;
use crate::cluster_node::{ClusterNode, PODS, condition, pod};

use super::preemption::processors;

fn sized(name: &str, cpu: u32) -> Value {
    let mut pod = pod(name, &["sleep", "forever"]);
    pod["spec"]["containers"][0]["resources"] = resources(cpu);
    pod
}

fn resources(cpu: u32) -> Value {
    let (cpu, twice) = (format!("{cpu}m"), format!("{}m", 2 * cpu));
    json!({
        "requests": { "cpu": cpu, "memory": "32Mi" },
        "limits": { "cpu": twice, "memory": "64Mi" },
    })
}

fn request_resize(cluster: &ClusterNode, path: &str, cpu: u32) -> Result<()> {
    let container = json!({ "name": "main", "resources": resources(cpu) });
    let change = json!({ "spec": { "containers": [container] } });
    cluster.api().patch(&format!("{path}/resize"), Patch::Strategic, &change).map(drop)
}

/// Waits until the pod has the requested resources, and no resize is pending.
fn wait_sized(cluster: &ClusterNode, path: &str, cpu: u32) -> Result<Value> {
    cluster.wait_for(path, &format!("it has {cpu}m"), |pod| {
        let pod = pod?;
        let status = &pod["status"]["containerStatuses"][0];
        let has = status["resources"]["requests"]["cpu"] == format!("{cpu}m")
            && status["resources"]["limits"]["cpu"] == format!("{}m", 2 * cpu)
            && status["allocatedResources"]["cpu"] == format!("{cpu}m");
        let waits = ["PodResizePending", "PodResizeInProgress"]
            .into_iter()
            .any(|kind| !condition(pod, kind).is_null());
        let is_seen = pod["status"]["observedGeneration"] == pod["metadata"]["generation"];
        (has && !waits && is_seen).then(|| pod.clone())
    })
}

pub(super) fn resize(cluster: &ClusterNode) -> Result<()> {
    let api = cluster.api();
    let all = processors(cluster.node())? * 1000;
    let path = ClusterNode::pod_path("grows");
    api.create(PODS, &sized("grows", 100))?;
    cluster.wait_ready(&path)?;
    wait_sized(cluster, &path, 100)?;
    let before = cluster.running("grows")?;
    request_resize(cluster, &path, 150)?;
    wait_sized(cluster, &path, 150)?;
    for reason in ["ResizeStarted", "ResizeCompleted"] {
        cluster.wait_for_event("grows", reason, "150m")?;
    }
    // Another pod has the CPU that the next resize needs: the resize is deferred until that pod is removed.
    api.create(PODS, &sized("holds", all / 2))?;
    cluster.wait_ready(&ClusterNode::pod_path("holds"))?;
    request_resize(cluster, &path, all / 2 + 200)?;
    cluster.wait_for(&path, "it waits", |pod| {
        (condition(pod?, "PodResizePending")["reason"] == "Deferred").then_some(())
    })?;
    cluster.wait_for_event("grows", "ResizeDeferred", "cpu")?;
    let pod = api.get(&path)?.context("it is there")?;
    let has = &pod["status"]["containerStatuses"][0]["allocatedResources"]["cpu"];
    ensure!(has == "150m", "{pod}");
    cluster.remove_pod("holds")?;
    wait_sized(cluster, &path, all / 2 + 200)?;
    let after = cluster.running("grows")?;
    ensure!((&after.id, after.pid) == (&before.id, before.pid), "{before:?}, then {after:?}");
    cluster.remove_pod("grows")
}
