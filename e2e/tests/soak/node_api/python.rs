//! The Python client of Kubernetes: it speaks `WebSocket` to the API server.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::agent::Agent;
use e2e::cluster_node::{ClusterNode, NAMESPACE};
use e2e::node_api;

const SCRIPT: &str = include_str!("client.py");

/// The interpreter that `make soak PART=node-api` prepares.
fn python() -> Result<String> {
    let cache = std::env::var("FERROLET_CACHE")
        .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cache/ferrolet")));
    let python = format!("{}/python-client/bin/python", cache.context("the cache's directory")?);
    ensure!(Path::new(&python).exists(), "{python} is missing: run `make soak PART=node-api`");
    Ok(python)
}

#[test]
fn python_client_executes_and_forwards_ports() -> Result<()> {
    let python = python()?;
    let cluster = node_api::start(Agent::Ferrolet, &[])?;
    cluster.make_pod("web", &["serve", "8080"])?;
    cluster.wait_ready(&ClusterNode::pod_path("web"))?;
    let output = Command::new(python)
        .args(["-c", SCRIPT])
        .arg(cluster.control_plane().admin_kubeconfig())
        .args([NAMESPACE, "web"])
        .output()
        .context("run the client")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    ensure!(text.ends_with("all went well\n"), "{text}");
    cluster.stop()
}
