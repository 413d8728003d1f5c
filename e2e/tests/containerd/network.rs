//! Ports and DNS of pods.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::node::{NODE_NAME, Node, PATIENCE};
use testbed::wait;

use crate::container::{lines, pod};

/// The response of a server.
fn get(address: SocketAddr) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET /through-the-port HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn host_port_reaches_the_pod_and_dns_policy_sets_name_servers() -> Result<()> {
    let mut node = Node::start()?;
    let resolver = node.instance().dir().join("node/resolv.conf");
    std::fs::write(&resolver, "nameserver 192.0.2.53\nsearch node.example\noptions timeout:3\n")?;
    node.configure(&format!(
        "clusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\nresolvConf: {}",
        resolver.display()
    ))?;
    let port = "ports: [{name: web, containerPort: 8080, hostPort: 8099}]";
    let web = pod("web", "hostname: web", &[("main", "[serve, '8080']", port)]);
    let cat: &[_] = &[("main", "[cat, /etc/resolv.conf]", "")];
    let requesting = [
        ("default", "dnsPolicy: Default"),
        (
            "none",
            "dnsPolicy: None\n  dnsConfig: {nameservers: [192.0.2.99], searches: [own.example]}",
        ),
        ("host", "hostNetwork: true"),
        ("cluster", "hostNetwork: true\n  dnsPolicy: ClusterFirstWithHostNet"),
    ];
    node.write_manifest("web.yaml", &web)?;
    for (name, spec) in requesting {
        node.write_manifest(&format!("{name}.yaml"), &pod(name, spec, cat))?;
    }
    node.start_agent()?;

    let of_node = ["nameserver 192.0.2.53", "search node.example", "options timeout:3"];
    let of_cluster = [
        "nameserver 10.96.0.10",
        "search shop.svc.cluster.local svc.cluster.local cluster.local node.example",
        "options ndots:5",
    ];
    let expected = [
        ("default", &of_node[..]),
        ("none", &["nameserver 192.0.2.99", "search own.example"]),
        ("host", &of_node),
        ("cluster", &of_cluster),
    ];
    for (name, file) in expected {
        node.wait_for_log(&["Pod terminated and cleaned up", &format!("shop/{name}-{NODE_NAME}")])?;
        let mut found = lines(&node, name, "main")?;
        found.retain(|line| !line.is_empty());
        found.sort();
        let mut file = file.to_vec();
        file.sort_unstable();
        ensure!(found == file, "{name}: {found:?}");
    }

    // From outside of the node.
    let address = SocketAddr::from((node.instance().node_ip(), 8099));
    let answer = wait::until("the pod answers", PATIENCE, || {
        Ok(get(address).map_err(|error| format!("{error:#}")))
    });
    let answer = node.explained(answer)?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // The runtime writes the log after the pod has answered.
    node.explained(wait::until("the pod logs the request", PATIENCE, || {
        let requested = lines(&node, "web", "main")?;
        let is_logged = requested.contains(&"GET /through-the-port HTTP/1.0".to_owned());
        Ok(if is_logged { Ok(()) } else { Err(format!("{requested:?}")) })
    }))?;
    node.remove_manifest("web.yaml")?;
    node.wait_for_log(&["Pod terminated and cleaned up", "shop/web-"])?;
    get(address).err().context("the port is open after the end of the pod")?;
    node.stop()
}

#[test]
fn host_port_is_open_on_its_address_and_protocol_only() -> Result<()> {
    let mut node = Node::start()?;
    let own = node.instance().node_ip();
    let ports = format!(
        "ports: [{{containerPort: 8080, hostPort: 8091, hostIP: {own}}}, \
         {{name: inside, containerPort: 8080, hostPort: 8092, hostIP: 127.0.0.1}}, \
         {{name: names, containerPort: 53, hostPort: 8093, protocol: UDP}}]"
    );
    let web = pod("web", "hostname: web", &[("main", "[serve, '8080']", &ports)]);
    node.write_manifest("web.yaml", &web)?;
    node.start_agent()?;
    let open = SocketAddr::from((own, 8091));
    let answer = wait::until("the pod answers", PATIENCE, || {
        Ok(get(open).map_err(|error| format!("{error:#}")))
    });
    node.explained(answer)?;
    for port in [8092, 8093] {
        let closed = get(SocketAddr::from((own, port)));
        ensure!(closed.is_err(), "{port} is open from outside: {closed:?}");
    }
    let rules =
        node.run("sh", &["-c", "iptables -t nat -S; nft list ruleset 2>/dev/null || true"])?;
    let has_rule =
        |parts: &[&str]| rules.lines().any(|rule| parts.iter().all(|part| rule.contains(part)));
    ensure!(has_rule(&["udp", "8093"]) && !has_rule(&["tcp", "8093"]), "{rules}");
    ensure!(has_rule(&["127.0.0.1", "tcp", "8092"]), "{rules}");
    node.stop()
}
