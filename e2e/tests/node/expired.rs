//! The node is cut off from its API server for so long that the store compacts the node's resource version.

use anyhow::{Context, Result, ensure};
use e2e::api::{Patch, status_code};
use e2e::cluster_node::{ClusterNode, PODS};
use e2e::node::PATIENCE;
use serde_json::{Value, json};
use testbed::{ControlPlaneOptions, wait};

/// An API server without a watch cache that compacts its store every second: watches from older versions fail.
fn forgetful() -> ControlPlaneOptions {
    let flags = ["--watch-cache=false", "--etcd-compaction-interval=1s"];
    let api_server = flags.map(ToOwned::to_owned).to_vec();
    ControlPlaneOptions { api_server, ..ControlPlaneOptions::default() }
}

/// Adds or removes a rule that blocks the node's way to the API server.
fn cut_off(cluster: &ClusterNode, how: &str) -> Result<()> {
    let node = cluster.node();
    let server = cluster.control_plane().server();
    let port = server.rsplit(':').next().context("a port")?;
    let address = node.instance().node_ip().to_string();
    let to = ["--destination", &address, "--protocol", "tcp", "--dport", port];
    let then = ["--jump", "REJECT", "--reject-with", "tcp-reset"];
    node.run("iptables", &[&[how, "OUTPUT"][..], &to, &then].concat()).map(drop)
}

fn version(object: &Value) -> Result<String> {
    Ok(object["metadata"]["resourceVersion"].as_str().context("a version")?.to_owned())
}

/// Writes until the store has compacted a version.
fn wait_forgotten(cluster: &ClusterNode, pod: &str, version: &str) -> Result<()> {
    let then = format!("{PODS}?resourceVersion={version}&resourceVersionMatch=Exact");
    let mut number = 0;
    wait::until("the store was compacted", PATIENCE, || {
        number += 1;
        let change = json!({ "metadata": { "annotations": { "n": number.to_string() } } });
        cluster.api().patch(pod, Patch::Merge, &change)?;
        Ok(match cluster.api().list(&then) {
            Err(error) if status_code(&error) == Some(410) => Ok(()),
            other => Err(format!("{:?}", other.map(|pods| pods.len()))),
        })
    })
}

// behaviour: API-35
#[test]
fn watch_with_expired_resource_version_lists_again() -> Result<()> {
    let mut cluster = ClusterNode::start(&forgetful())?;
    cluster.start_agent()?;
    cluster.wait_node_ready()?;
    let [stays, goes, comes] = ["stays", "goes", "comes"].map(ClusterNode::pod_path);
    for (name, path) in [("stays", &stays), ("goes", &goes)] {
        cluster.make_pod(name, &["sleep", "forever"])?;
        cluster.wait_ready(path)?;
    }
    let running = cluster.running("stays")?;

    cut_off(&cluster, "--insert")?;
    let of_pods = "pods of this node";
    cluster.node().wait_for_log(&[of_pods, "Watch failed, retrying"])?;
    cluster.api().delete_with_grace(&goes, 0)?;
    let made = cluster.make_pod("comes", &["sleep", "forever"])?;
    wait_forgotten(&cluster, &stays, &version(&made)?)?;
    ensure!(cluster.running("goes").is_ok(), "the node was not cut off");
    cut_off(&cluster, "--delete")?;

    cluster.wait_ready(&comes)?;
    cluster.node().wait_for_log(&[of_pods, "Resource version is expired, listing again"])?;
    cluster.node().explained(wait::until("the deleted pods have ended", PATIENCE, || {
        let left = cluster.containers("goes")?;
        let has_ended = left.iter().all(|one| !one.is_alive());
        Ok(if has_ended { Ok(()) } else { Err(format!("{left:?}")) })
    }))?;
    ensure!(cluster.running("stays")? == running, "it was changed");
    cluster.remove_pods(&["stays", "comes"])?;
    cluster.stop()
}
