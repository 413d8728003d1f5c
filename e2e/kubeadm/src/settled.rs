//! The pods of the cluster between two steps.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::add_ons::wait_all_ready;
use crate::cluster::Cluster;
use crate::pods::Pods;

/// The pods, once all are ready.
pub(crate) fn settled(cluster: &Cluster) -> Result<Pods> {
    for node in cluster.nodes() {
        wait_all_ready(cluster, node)?;
    }
    cluster.wait("the pods are listed", || Ok(Ok(cluster.pods()?)))
}

/// Fails if a container is another one after the agents have run a new pod on each node.
pub(crate) fn ensure_same_containers(cluster: &Cluster, before: &Pods, label: &str) -> Result<()> {
    let pods = cluster.nodes().map(|node| {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": format!("{label}-{}", node.name()), "labels": { "run": label } },
            "spec": {
                "nodeName": node.name(),
                "tolerations": [{ "operator": "Exists" }],
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "main", "image": "ferrolet.test/add-on:1", "args": ["sleep", "forever"],
                }],
            },
        })
    });
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": pods }).to_string();
    // The API server may be restarting.
    cluster.wait("pods are created", || Ok(Ok(cluster.apply("pods.json", &list)?)))?;
    let selector = format!("run={label}");
    cluster.wait_pods_ready(&selector, pods.len())?;
    cluster.kubectl(&["delete", "pods", "--selector", &selector])?;
    let changed = before.differences(&settled(cluster)?);
    ensure!(changed.is_empty(), "containers have changed: {changed:?}");
    Ok(())
}
