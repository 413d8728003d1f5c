//! Deletion of pods: with their grace period, with a shorter one, and at once.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testbed::wait;

use crate::api::Patch;
use crate::cluster_node::{ClusterNode, PODS, pod};
use crate::node::PATIENCE;

const HOLD: &str = "example.com/hold";

/// Creates a pod with a finalizer, so that its last status can be seen.
pub(super) fn make_held(cluster: &ClusterNode, pod: &Value) -> Result<Value> {
    let mut pod = pod.clone();
    pod["metadata"]["finalizers"] = json!([HOLD]);
    cluster.api().create(PODS, &pod)
}

/// Waits until only the finalizer holds a deleted pod, and records its object.
pub(super) fn wait_held(cluster: &ClusterNode, path: &str) -> Result<Value> {
    let held = cluster.wait_for(path, "only the finalizer holds it", |pod| {
        pod.filter(|pod| pod["metadata"]["deletionGracePeriodSeconds"] == 0).cloned()
    })?;
    cluster.look_at_object(&held);
    Ok(held)
}

/// Removes the finalizers of a pod, and waits until it is gone.
pub(super) fn let_go(cluster: &ClusterNode, path: &str) -> Result<()> {
    let no_finalizers = json!({ "metadata": { "finalizers": null } });
    cluster.api().patch(path, Patch::Merge, &no_finalizers)?;
    cluster.wait_gone(path, PATIENCE)
}

/// Creates and deletes a pod, and returns its last status.
fn ended(cluster: &ClusterNode, pod: &Value, grace: Option<u32>) -> Result<Value> {
    let made = make_held(cluster, pod)?;
    let name = made["metadata"]["name"].as_str().unwrap_or_default();
    let path = ClusterNode::pod_path(name);
    cluster.wait_ready(&path)?;
    match grace {
        None => cluster.api().delete(&path)?,
        Some(seconds) => cluster.api().delete_with_grace(&path, seconds)?,
    };
    let ended = cluster.wait_over(&path)?;
    ensure!(!ended["metadata"]["deletionTimestamp"].is_null(), "{ended}");
    wait_held(cluster, &path)?;
    let_go(cluster, &path)?;
    Ok(ended["status"].clone())
}

fn exit_code(status: &Value) -> &Value {
    &status["containerStatuses"][0]["state"]["terminated"]["exitCode"]
}

pub(super) fn deletion(cluster: &ClusterNode) -> Result<()> {
    // With its own grace period; the status has the exit code before the object goes.
    let careful = pod("careful", &["trap", "TERM", "--exit", "7", "--delay", "1s"]);
    let status = ended(cluster, &careful, None)?;
    ensure!(status["phase"] == "Failed" && *exit_code(&status) == 7, "{status}");
    // It would take ten minutes, but the deletion has a shorter grace period.
    let mut stubborn = pod("stubborn", &["ignore", "TERM"]);
    stubborn["spec"]["terminationGracePeriodSeconds"] = 600.into();
    let status = ended(cluster, &stubborn, Some(1))?;
    ensure!(status["phase"] == "Failed" && *exit_code(&status) == 137, "{status}");
    forced(cluster)
}

/// A forced deletion: the object is gone at once, and another pod may have its name; the containers of the first are
/// stopped.
fn forced(cluster: &ClusterNode) -> Result<()> {
    let path = ClusterNode::pod_path("forced");
    let mut first = pod("forced", &["ignore", "TERM"]);
    first["spec"]["terminationGracePeriodSeconds"] = 2.into();
    cluster.api().create(PODS, &first)?;
    cluster.wait_ready(&path)?;
    let before = cluster.running("forced")?;
    cluster.api().delete_with_grace(&path, 0)?;
    ensure!(cluster.api().get(&path)?.is_none(), "it should be gone at once");
    cluster.make_pod("forced", &["sleep", "forever"])?;
    let second = cluster.wait_ready(&path)?;
    cluster.node().explained(wait::until("only the second runs", PATIENCE, || {
        Ok(cluster.running("forced").map_err(|error| format!("{error:#}")))
    }))?;
    let after = cluster.running("forced")?;
    ensure!(after.id != before.id, "the first still runs");
    let container_id = format!("containerd://{}", after.id);
    ensure!(second["status"]["containerStatuses"][0]["containerID"] == container_id, "{second}");
    cluster.remove_pod("forced")
}
