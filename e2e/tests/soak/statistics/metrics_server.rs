//! metrics-server, which reads `/metrics/resource`.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::agent::Agent;
use e2e::cluster_node::{ClusterNode, NAMESPACE};
use e2e::https::{Credentials, Port};
use e2e::node::NODE_NAME;
use e2e::node_api;
use e2e::statistics::{HELD, MEBIBYTE};
use serde_json::Value;
use testbed::{Cache, Command, wait};

const PORT: u16 = 4443;
/// It needs two samples, which are 10 s apart.
const TIME: Duration = Duration::from_mins(2);

#[test]
fn metrics_server_reports_nodes_and_pods() -> Result<()> {
    let program = Cache::from_env()?.parts().program("metrics-server");
    let path = program.display();
    ensure!(program.exists(), "{path} is missing: run `e2e/parts/build.sh metrics-server`");
    let cluster = node_api::start(Agent::Ferrolet, &[])?;
    cluster.make_pod("holder", &["hold", "64"])?;
    cluster.wait_ready(&ClusterNode::pod_path("holder"))?;
    let admin = cluster.control_plane().admin_kubeconfig().clone();
    let instance = cluster.node().instance();
    let directory = instance.dir().join("metrics-server");
    let mut command = Command::new(path.to_string());
    for flag in ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"] {
        command = command.arg(format!("--{flag}={}", admin.display()));
    }
    let command = command
        .arg(format!("--cert-dir={}", directory.display()))
        .arg(format!("--secure-port={PORT}"))
        .args(["--kubelet-insecure-tls", "--metric-resolution=10s", "--kubelet-request-timeout=5s"])
        .arg("--kubelet-preferred-address-types=InternalIP");
    let server = instance.spawn("metrics-server", &command)?;
    let port = Port::new(&cluster, SocketAddr::from((instance.node_ip(), PORT)))?.self_signed();
    let pod = format!("namespaces/{NAMESPACE}/pods/holder");
    let pod = reported(&port, &admin, &pod)?;
    let memory = memory_of(&pod["containers"][0])?;
    ensure!((HELD..HELD * 11 / 10).contains(&memory), "{pod}");
    let node = reported(&port, &admin, &format!("nodes/{NODE_NAME}"))?;
    ensure!(memory_of(&node)? > memory && node["usage"]["cpu"].is_string(), "{node}");
    server.kill()?;
    cluster.stop()
}

/// An object of the metrics API, once it exists.
fn reported(port: &Port<'_>, admin: &std::path::Path, path: &str) -> Result<Value> {
    let credentials = Credentials::Certificate(admin.to_owned());
    let path = format!("/apis/metrics.k8s.io/v1beta1/{path}");
    wait::every(Duration::from_secs(1), &path, TIME, || {
        Ok(match port.get(&credentials, &path) {
            Ok((200, body)) => Ok(serde_json::from_str(&body)?),
            other => Err(format!("{other:?}")),
        })
    })
}

fn memory_of(object: &Value) -> Result<u64> {
    let memory = object["usage"]["memory"].as_str().context("no memory")?;
    let (digits, unit) = memory.split_at(memory.trim_end_matches(char::is_alphabetic).len());
    let number: u64 = digits.parse()?;
    match unit {
        "" => Ok(number),
        "Ki" => Ok(number << 10),
        "Mi" => Ok(number * MEBIBYTE),
        _ => anyhow::bail!("memory of {memory}"),
    }
}
