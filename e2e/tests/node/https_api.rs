//! The node's API on port 10250: kubectl through the real API server, and clients that must be refused.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::agent::Agent;
use e2e::cluster_node::ClusterNode;
use e2e::credentials::foreign_certificate;
use e2e::https::{Credentials, Port, let_use_nodes, make_account, token};
use e2e::node::{NODE_NAME, PATIENCE};
use e2e::node_api;
use e2e::scenarios::kubectl_streams::{attach, copy, resize};
use serde_json::json;
use testbed::{Cache, Command, User, wait};

const NAMESPACE: &str = e2e::cluster_node::NAMESPACE;

// behaviour: SRV-30
#[test]
fn kubectl_reads_logs_executes_and_forwards_ports_through_the_api_server() -> Result<()> {
    let cluster = node_api::start(Agent::Ferrolet, &[])?;
    cluster.make_pod("web", &["serve", "8080"])?;
    cluster.make_pod("talker", &["logs", "--rate", "max", "--count", "3"])?;
    let pod = cluster.wait_ready(&ClusterNode::pod_path("web"))?;
    ensure!(pod["status"]["phase"] == "Running", "{pod}");
    let kubectl = |args: &[&str]| cluster.kubectl(&[&["--namespace", NAMESPACE], args].concat());

    wait::until("the log has three lines", PATIENCE, || {
        let log = kubectl(&["logs", "talker"])?;
        Ok(if log.lines().count() == 3 { Ok(()) } else { Err(log) })
    })?;
    let last = kubectl(&["logs", "talker", "--tail=1"])?;
    ensure!(last.lines().count() == 1, "{last}");

    let printed = kubectl(&["exec", "web", "--", "/workload", "args", "one", "two words"])?;
    ensure!(printed == "one\ntwo words\n", "{printed:?}");
    let failed = cluster.control_plane().kubectl(&[
        "--namespace",
        NAMESPACE,
        "exec",
        "web",
        "--",
        "/workload",
        "exit",
        "7",
    ])?;
    ensure!(failed.status.code() == Some(7), "{failed:?}");

    let local = SocketAddr::from((cluster.node().instance().node_ip(), 18080));
    let forward = Command::new(Cache::from_env()?.parts().program("kubectl").display().to_string())
        .arg("--kubeconfig")
        .arg(cluster.control_plane().admin_kubeconfig().display().to_string())
        .args(["--namespace", NAMESPACE, "port-forward", "pod/web", "18080:8080", "--address"])
        .arg(local.ip().to_string());
    let forward = cluster.node().instance().spawn("port-forward", &forward)?;
    let answer = wait::until("the forwarded port answers", PATIENCE, || {
        Ok(get_over(local).map_err(|error| format!("{error}\n{}", forward.log())))
    })?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    forward.kill()?;

    let raw =
        |path: &str| kubectl(&["get", "--raw", &format!("/api/v1/nodes/{NODE_NAME}/proxy/{path}")]);
    ensure!(raw("healthz")? == "ok");
    ensure!(raw("pods")?.contains("\"name\":\"web\""));
    ensure!(raw("runningpods/")?.contains("\"name\":\"web\""));
    ensure!(raw("configz")?.contains("\"enableServer\":true"));
    ensure!(raw("metrics")?.contains("kubelet_http_requests_total{"));
    cluster.stop()
}

// behaviour: SRV-32
#[test]
fn kubectl_attaches_resizes_terminals_and_copies_files() -> Result<()> {
    let cluster = node_api::start(Agent::Ferrolet, &[])?;
    node_api::import_tools(cluster.node())?;
    node_api::make_tools(&cluster, "tools")?;
    cluster.node().explained(attach(&cluster))?;
    cluster.node().explained(resize(&cluster, "tools"))?;
    cluster.node().explained(copy(&cluster, "tools", 1 << 20))?;
    cluster.stop()
}

fn get_over(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: web\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

// behaviour: SRV-31
#[test]
fn https_api_lets_in_only_clients_that_the_api_server_allows() -> Result<()> {
    let mut cluster = node_api::start(Agent::Ferrolet, &[])?;
    let account = make_account(&cluster, NAMESPACE, "scraper")?;
    let scraper = Credentials::Token(token(&cluster, &account, &json!({}))?);
    let_use_nodes(&cluster, NAMESPACE, "scraper", &["get"], &["nodes/metrics"])?;
    let foreign = Credentials::Certificate(foreign_certificate(&cluster)?);
    let admin = Credentials::Certificate(cluster.kubeconfig(&User::admin())?);
    let node = SocketAddr::from((cluster.node().instance().node_ip(), 10250));
    let port = Port::new(&cluster, node)?.self_signed();
    let bad = Credentials::Token("nonsense".to_owned());
    let rows = [
        ("no certificate", &Credentials::Anonymous, "/metrics", 401),
        ("certificate of another authority", &foreign, "/metrics", 401),
        ("bad token", &bad, "/metrics", 401),
        ("good token", &scraper, "/metrics", 200),
        ("denied subresource", &scraper, "/pods", 403),
        ("denied stream", &scraper, "/exec/shop/web/main?command=id&output=1", 403),
        ("administrator", &admin, "/pods", 200),
        ("root that is not served", &Credentials::Anonymous, "/secrets", 404),
    ];
    for (what, who, path, expected) in rows {
        let (status, text) = port.get(who, path)?;
        ensure!(status == expected, "{what}: {status} {text}");
    }
    ensure!(
        port.get(&scraper, "/pods")?
            .1
            .contains("verb=get, resource=nodes, subresource(s)=[pods proxy]")
    );
    let closed = slow_request(node)?;
    ensure!(closed < Duration::from_secs(30), "slow headers: {closed:?}");
    drop(port);

    cluster.kill_api_server()?;
    let port = Port::new(&cluster, node)?.self_signed();
    ensure!(
        port.get(&Credentials::Token("other".to_owned()), "/metrics")?.0 == 401,
        "API server away"
    );
    // Cached decisions stay in effect; without one, access is denied.
    ensure!(port.get(&scraper, "/metrics")?.0 == 200, "cached");
    let (status, text) = port.get(&admin, "/configz")?;
    ensure!(status == 500 && text.starts_with("Authorization error (user="), "{status} {text}");
    cluster.stop()
}

/// Sends half of a request, and measures how long the node waits for the rest.
fn slow_request(address: SocketAddr) -> Result<Duration> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // A handshake that never ends: its first message is announced and not sent.
    stream.write_all(&[22, 3, 1, 2, 0])?;
    let (begun, mut rest) = (Instant::now(), Vec::new());
    stream.read_to_end(&mut rest).context("wait for the end of the connection")?;
    Ok(begun.elapsed())
}
