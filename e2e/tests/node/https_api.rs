//! The node's API on port 10250: kubectl through the real API server, and clients that must not get in.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::cluster_node::ClusterNode;
use e2e::https::{Port, Who, file, make_account, token};
use e2e::node::{NODE_NAME, PATIENCE};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::json;
use testbed::{Cache, Command, ControlPlaneOptions, User, wait};

const NAMESPACE: &str = e2e::cluster_node::NAMESPACE;

/// A cluster whose node serves its API.
fn cluster_with_server(more: &[String]) -> Result<ClusterNode> {
    let mut cluster = ClusterNode::start(&ControlPlaneOptions::default())?;
    let authority = format!("--client-ca-file={}", file(&cluster, "ca.crt"));
    let mut flags = vec!["--enable-server=true", &authority];
    flags.extend(more.iter().map(String::as_str));
    cluster.start_agent_with_flags(&flags)?;
    cluster.wait_node_ready()?;
    // The API server connects to the node's address, which a busy machine may find after it is ready.
    cluster.wait_for(&format!("/api/v1/nodes/{NODE_NAME}"), "the node has an address", |node| {
        let addresses = node?["status"]["addresses"].as_array()?;
        addresses.iter().any(|address| address["type"] == "InternalIP").then_some(())
    })?;
    Ok(cluster)
}

// behaviour: SRV-30
#[test]
fn kubectl_reads_logs_executes_and_forwards_ports_through_the_api_server() -> Result<()> {
    let cluster = cluster_with_server(&[])?;
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

fn get_over(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: web\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// A kubeconfig with a client certificate of an authority that the node does not trust.
fn foreign(cluster: &ClusterNode) -> Result<PathBuf> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "kubernetes-admin");
    params.distinguished_name.push(DnType::OrganizationName, "system:masters");
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    let mut path = cluster.control_plane().admin_kubeconfig().clone();
    let (cert_file, key_file) =
        (path.with_file_name("foreign.crt"), path.with_file_name("foreign.key"));
    fs::write(&cert_file, certificate.pem())?;
    fs::write(&key_file, key.serialize_pem())?;
    let config = json!({
        "clusters": [{ "name": "c", "cluster": {
            "server": cluster.control_plane().server(),
            "certificate-authority": file(cluster, "ca.crt"),
        }}],
        "users": [{ "name": "u", "user": {
            "client-certificate": cert_file, "client-key": key_file,
        }}],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" }}],
        "current-context": "c",
    });
    path.set_file_name("foreign.kubeconfig");
    fs::write(&path, config.to_string())?;
    Ok(path)
}

/// Lets the owner of a service account get the metrics of nodes.
fn let_scrape(cluster: &ClusterNode, name: &str) -> Result<()> {
    let group = "rbac.authorization.k8s.io";
    let role = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRole",
        "metadata": { "name": name },
        "rules": [{ "apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"] }],
    });
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
        "metadata": { "name": name },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": name },
        "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": NAMESPACE }],
    });
    cluster.api().create(&format!("/apis/{group}/v1/clusterroles"), &role)?;
    cluster.api().create(&format!("/apis/{group}/v1/clusterrolebindings"), &binding)?;
    Ok(())
}

// behaviour: SRV-31
#[test]
fn https_api_lets_in_only_clients_that_the_api_server_allows() -> Result<()> {
    let mut cluster = cluster_with_server(&[])?;
    let account = make_account(&cluster, NAMESPACE, "scraper")?;
    let scraper = Who::Token(token(&cluster, &account, &json!({}))?);
    let_scrape(&cluster, "scraper")?;
    let foreign = Who::Certificate(foreign(&cluster)?);
    let admin = Who::Certificate(cluster.kubeconfig(&User::admin())?);
    let node = SocketAddr::from((cluster.node().instance().node_ip(), 10250));
    let port = Port::new(&cluster, node)?.self_signed();
    let bad = Who::Token("nonsense".to_owned());
    let rows = [
        ("no certificate", &Who::Anonymous, "/metrics", 401),
        ("certificate of another authority", &foreign, "/metrics", 401),
        ("bad token", &bad, "/metrics", 401),
        ("good token", &scraper, "/metrics", 200),
        ("denied subresource", &scraper, "/pods", 403),
        ("denied stream", &scraper, "/exec/shop/web/main?command=id&output=1", 403),
        ("administrator", &admin, "/pods", 200),
        ("root that is not served", &Who::Anonymous, "/secrets", 404),
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
    ensure!(port.get(&Who::Token("other".to_owned()), "/metrics")?.0 == 401, "API server away");
    // What was decided is remembered; what was not is not allowed.
    ensure!(port.get(&scraper, "/metrics")?.0 == 200, "cached");
    let (status, text) = port.get(&admin, "/configz")?;
    ensure!(status == 500 && text.starts_with("Authorization error (user="), "{status} {text}");
    cluster.stop()
}

/// Sends half of a request, and measures how long the node waits for the rest.
fn slow_request(address: SocketAddr) -> Result<Duration> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // The handshake never ends: its first message is announced and not sent.
    stream.write_all(&[22, 3, 1, 2, 0])?;
    let (begun, mut rest) = (Instant::now(), Vec::new());
    stream.read_to_end(&mut rest).context("wait for the end of the connection")?;
    Ok(begun.elapsed())
}
