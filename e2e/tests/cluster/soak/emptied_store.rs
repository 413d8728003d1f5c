//! A store that is emptied while our Pod GC controller runs: the server restarts its resource versions without an error
//! in existing watches.

use anyhow::{Context, Result, ensure};
use e2e::api::{Api, Patch};
use e2e::cluster::Cluster;
use e2e::node::PATIENCE;
use serde_json::json;
use testbed::ControlPlaneOptions;

use crate::collector::{FREQUENT_PASSES, start_pod_gc, wait_for_a_pass};
use crate::objects::{node, pod};

const NAMESPACE: &str = "wiped";
const PODS: &str = "/api/v1/namespaces/wiped/pods";

/// How many more writes the first store gets than the second.
const AHEAD: usize = 300;

/// Creates a terminated pod, several times.
fn make_ended(api: &Api, name: &str, again: usize) -> Result<()> {
    api.create(PODS, &pod(name, Some("works")))?;
    let path = format!("{PODS}/{name}");
    let status = json!({ "status": { "phase": "Succeeded" } });
    api.patch(&format!("{path}/status"), Patch::Merge, &status)?;
    for number in 0..again {
        let change = json!({ "metadata": { "annotations": { "n": number.to_string() } } });
        api.patch(&path, Patch::Merge, &change)?;
    }
    Ok(())
}

/// The resource version of the store.
fn version(api: &Api) -> Result<u64> {
    let node = api.create("/api/v1/nodes", &node("works"))?;
    Ok(node["metadata"]["resourceVersion"].as_str().context("it has a version")?.parse()?)
}

#[test]
fn emptied_store_is_listed_again() -> Result<()> {
    let mut cluster = Cluster::start(&ControlPlaneOptions::default())?;
    cluster.make_namespace(NAMESPACE)?;
    let first = version(cluster.api())? + AHEAD as u64;
    make_ended(cluster.api(), "old", AHEAD)?;
    let kubeconfig = cluster.control_plane().admin_kubeconfig().clone();
    let flags = ["--leader-elect=false", "--terminated-pod-gc-threshold=1", FREQUENT_PASSES];
    let process = start_pod_gc(&cluster, "pod-gc", &kubeconfig, &flags)?;
    wait_for_a_pass(&cluster, NAMESPACE).with_context(|| process.log())?;

    cluster.lose_everything()?;
    cluster.make_namespace(NAMESPACE)?;
    let api = cluster.api();
    let second = version(api)?;
    ensure!(second < first, "the store is at {second} already, and was at {first}");
    make_ended(api, "first", 0)?;
    make_ended(api, "second", 0)?;
    // Pods of the first store are forgotten: there is one pod above the threshold, and not two.
    api.wait_gone(&format!("{PODS}/first"), PATIENCE).with_context(|| process.log())?;
    wait_for_a_pass(&cluster, NAMESPACE).with_context(|| process.log())?;
    api.get(&format!("{PODS}/second"))?.context("the younger of two is allowed")?;
    ensure!(process.log().contains("listing again"), "{}", process.log());
    ensure!(process.is_alive()?, "it ended: {}", process.log());
    cluster.stop()
}
