//! Each kind of client with each path.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::agent::Agent;
use e2e::cluster_node::{ClusterNode, NAMESPACE};
use e2e::credentials::{expired_certificate, expired_token, foreign_certificate};
use e2e::https::{Credentials, Port, let_use_nodes, make_account, token};
use e2e::node::PATIENCE;
use e2e::node_api;
use serde_json::json;
use testbed::User;

/// Paths with the status that a client gets that may do everything, and the subresources of which one must be
/// permitted.
const PATHS: &[(&str, &str, u16, &[&str])] = &[
    ("GET", "/healthz", 200, &["healthz", "proxy"]),
    ("GET", "/healthz/ping", 200, &["healthz", "proxy"]),
    ("GET", "/pods", 200, &["pods", "proxy"]),
    ("GET", "/pods/x", 404, &["pods", "proxy"]),
    ("GET", "/runningpods/", 200, &["pods", "proxy"]),
    ("GET", "/configz", 200, &["configz", "proxy"]),
    ("GET", "/metrics", 200, &["metrics"]),
    ("GET", "/metrics/slis", 200, &["metrics"]),
    ("GET", "/metrics/none", 404, &["metrics"]),
    ("GET", "/stats/summary", 200, &["stats"]),
    ("GET", "/logs/", 200, &["log"]),
    ("GET", "/statusz", 200, &["statusz"]),
    ("GET", "/flagz", 200, &["configz"]),
    ("GET", "/containerLogs/shop/none/main", 404, &["proxy"]),
    ("GET", "/debug/pprof/heap", 405, &["proxy"]),
    ("PUT", "/debug/flags/v", 400, &["proxy"]),
    ("POST", "/checkpoint/shop/none/main", 404, &["checkpoint"]),
    ("POST", "/run/shop/none/main?cmd=id", 404, &["proxy"]),
    ("GET", "/exec/shop/none/main?command=id&output=1", 404, &["proxy"]),
    ("POST", "/exec/shop/none/main?command=id&output=1", 404, &["proxy"]),
    ("GET", "/attach/shop/none/main?output=1", 404, &["proxy"]),
    ("GET", "/portForward/shop/none?port=80", 404, &["proxy"]),
];

/// Whether a path runs something in a container.
fn is_stream(path: &str) -> bool {
    ["/run/", "/exec/", "/attach/", "/portForward/"].iter().any(|root| path.starts_with(root))
}

/// The verb that a client needs for a request.
fn verb(method: &str, path: &str) -> &'static str {
    match method {
        "GET" if is_stream(path) => "create",
        "GET" => "get",
        "PUT" => "update",
        _ => "create",
    }
}

/// The rights of a service account's client.
struct Account {
    name: &'static str,
    verbs: &'static [&'static str],
    subresources: &'static [&'static str],
}

const ACCOUNTS: [Account; 4] = [
    Account { name: "scraper", verbs: &["get"], subresources: &["nodes/metrics", "nodes/stats"] },
    Account { name: "reader", verbs: &["get"], subresources: &["nodes/proxy"] },
    Account { name: "writer", verbs: &["create", "update"], subresources: &["nodes/proxy"] },
    Account { name: "logs", verbs: &["get"], subresources: &["nodes/log", "nodes/healthz"] },
];

impl Account {
    fn may(&self, method: &str, path: &str, subresources: &[&str]) -> bool {
        let has = |name: &&str| self.subresources.contains(&format!("nodes/{name}").as_str());
        self.verbs.contains(&verb(method, path)) && subresources.iter().any(has)
    }

    fn client(&self, cluster: &ClusterNode) -> Result<Credentials> {
        let account = make_account(cluster, NAMESPACE, self.name)?;
        let_use_nodes(cluster, NAMESPACE, self.name, self.verbs, self.subresources)?;
        Ok(Credentials::Token(token(cluster, &account, &json!({}))?))
    }
}

/// Sends each request as one client; `expected` has the status of each.
fn check(
    port: &Port<'_>,
    who: &Credentials,
    name: &str,
    expected: impl Fn(&str, &str, u16, &[&str]) -> u16,
) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for (method, path, served, subresources) in PATHS {
        let reply = port.send(who, method, path)?;
        let wanted = expected(method, path, *served, subresources);
        if reply.status != wanted {
            let text: String = reply.body.chars().take(200).collect();
            wrong.push(format!("{name}: {method} {path}: {} for {wanted}: {text}", reply.status));
        }
    }
    Ok(wrong)
}

#[test]
fn only_allowed_clients_are_let_in_to_each_path() -> Result<()> {
    let mut cluster = node_api::start(Agent::Ferrolet, &[])?;
    let node = SocketAddr::from((cluster.node().instance().node_ip(), 10250));
    let admin = Credentials::Certificate(cluster.kubeconfig(&User::admin())?);
    let ordinary = Credentials::Certificate(cluster.kubeconfig(&User::new("jane"))?);
    let accounts = ACCOUNTS.iter().map(|account| account.client(&cluster));
    let accounts: Vec<Credentials> = accounts.collect::<Result<_>>()?;
    let Credentials::Token(good) = &accounts[1] else { unreachable!("accounts have tokens") };
    let refused = [
        ("no credentials", Credentials::Anonymous),
        ("foreign certificate", Credentials::Certificate(foreign_certificate(&cluster)?)),
        ("expired certificate", Credentials::Certificate(expired_certificate(&cluster)?)),
        ("expired token", Credentials::Token(expired_token(&cluster, good)?)),
        ("bad token", Credentials::Token("nonsense".to_owned())),
        (
            "altered token",
            Credentials::Token(format!("{}x", good.trim_end_matches(char::is_alphanumeric))),
        ),
    ];
    let port = Port::new(&cluster, node)?.self_signed();
    let mut wrong = check(&port, &admin, "admin", |_, _, served, _| served)?;
    wrong.extend(check(&port, &ordinary, "certificate without rights", |_, _, _, _| 403)?);
    for (name, who) in &refused {
        wrong.extend(check(&port, who, name, |_, _, _, _| 401)?);
        ensure!(port.get(who, "/secrets")?.0 == 404, "{name}");
    }
    for (account, who) in ACCOUNTS.iter().zip(&accounts) {
        wrong.extend(check(&port, who, account.name, |method, path, served, subresources| {
            if account.may(method, path, subresources) { served } else { 403 }
        })?);
    }
    ensure!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    slow_clients_are_closed(node)?;
    ensure!(port.get(&admin, "/healthz")?.0 == 200, "the port works afterwards");
    drop(port);

    cluster.kill_api_server()?;
    let port = Port::new(&cluster, node)?.self_signed();
    // A certificate without a cached authorization, and a token without a cached review.
    let unknown = Credentials::Certificate(cluster.kubeconfig(&User::new("joe"))?);
    let mut wrong = check(&port, &unknown, "API server away", |_, _, _, _| 500)?;
    let other = Credentials::Token("other".to_owned());
    wrong.extend(check(&port, &other, "API server away, token", |_, _, _, _| 401)?);
    ensure!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    cluster.stop()
}

/// Clients that stop in the handshake, or in their headers, are disconnected while others are served.
fn slow_clients_are_closed(node: SocketAddr) -> Result<()> {
    // An announced message that is not sent, a part of one, and nothing at all.
    let beginnings: [&[u8]; 3] = [&[22, 3, 1, 2, 0], &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3], &[]];
    let begun = Instant::now();
    let streams = beginnings.map(|bytes| -> Result<TcpStream> {
        let mut stream = TcpStream::connect(node)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(bytes)?;
        Ok(stream)
    });
    for stream in streams {
        // A connection that is reset has been closed, too.
        let mut rest = Vec::new();
        _ = stream?.read_to_end(&mut rest);
        let closed = begun.elapsed();
        ensure!(closed < Duration::from_secs(30), "half-open TLS: {closed:?}");
    }
    let mut client = std::process::Command::new("openssl")
        .args(["s_client", "-quiet", "-connect", &node.to_string()])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .context("start openssl")?;
    let begun = Instant::now();
    let mut input = client.stdin.take().context("its input")?;
    input.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: ")?;
    let mut running = node_api::Running(client);
    testbed::wait::until("a client with slow headers is closed", PATIENCE, || {
        // A byte at a time, until the connection has ended.
        _ = input.write_all(b"x");
        Ok(running.0.try_wait()?.map(drop).ok_or_else(|| "it is open".to_owned()))
    })?;
    ensure!(begun.elapsed() < Duration::from_secs(30), "slow headers: {:?}", begun.elapsed());
    Ok(())
}
