//! The same requests to our agent and to the upstream kubelet.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::thread;

use anyhow::{Context, Result, ensure};
use e2e::agent::Agent;
use e2e::cluster_node::{ClusterNode, NAMESPACE};
use e2e::differences::{differences, leaves};
use e2e::https::{Credentials, Port, Reply, let_use_nodes, make_account, token};
use e2e::node_api;
use serde_json::{Map, Value, json};
use testbed::User;

use super::super::known::OF_REQUESTS;

const REQUESTS: &str = include_str!("requests.txt");

/// Headers that say when or how an answer was sent.
const NOT_COMPARED: [&str; 3] = ["date", "content-length", "transfer-encoding"];

/// The compared parts of a response: status, headers, and the body of errors and of the configuration.
fn compared(name: &str, mut reply: Reply, instance: &str) -> Result<Value> {
    // Each agent has its own directory.
    reply.body = reply.body.replace(instance, "INSTANCE");
    let mut headers = reply.headers;
    for name in NOT_COMPARED {
        headers.remove(name);
    }
    if let Some(time) = headers.get_mut("process-start-time-unix") {
        ensure!(time.parse::<u64>().is_ok(), "{name}: {time}");
        "a time".clone_into(time);
    }
    let mut answer = json!({ "status": reply.status, "headers": headers });
    if name == "configz" {
        answer["body"] = serde_json::from_str(&reply.body).context("the configuration")?;
    } else if reply.status >= 300 {
        answer["body"] = reply.body.into();
    }
    Ok(answer)
}

fn play(agent: Agent) -> Result<BTreeMap<String, String>> {
    let cluster = node_api::start(agent, &[])?;
    cluster.make_pod("web", &["serve", "8080"])?;
    cluster.wait_ready_at_last(&ClusterNode::pod_path("web"))?;
    let node = SocketAddr::from((cluster.node().instance().node_ip(), 10250));
    let admin = Credentials::Certificate(cluster.kubeconfig(&User::admin())?);
    let account = make_account(&cluster, NAMESPACE, "reader")?;
    let_use_nodes(&cluster, NAMESPACE, "reader", &["get"], &["nodes/proxy"])?;
    let reader = Credentials::Token(token(&cluster, &account, &json!({}))?);
    let port = Port::new(&cluster, node)?.self_signed();
    let instance = cluster.node().instance().dir().display().to_string();
    let mut answers = Map::new();
    let lines = REQUESTS.lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, who, method, path] = words[..] else { anyhow::bail!("four words: {line}") };
        let who = match who {
            "admin" => &admin,
            "reader" => &reader,
            "anonymous" => &Credentials::Anonymous,
            other => anyhow::bail!("no client {other}"),
        };
        let reply = port.send(who, method, path).context(line)?;
        answers.insert(name.to_owned(), compared(name, reply, &instance)?);
    }
    drop(port);
    cluster.stop()?;
    Ok(leaves(&Value::Object(answers)))
}

#[test]
fn both_agents_answer_requests_in_the_same_way() -> Result<()> {
    let [ours, upstream] = thread::scope(|threads| {
        let plays = [Agent::Ferrolet, Agent::Upstream]
            .map(|agent| threads.spawn(move || play(agent).with_context(|| agent.name())));
        plays.map(|played| played.join().expect("it does not panic"))
    });
    let (ours, upstream) = (ours?, upstream?);
    println!("{} values of ours and {} of upstream's compared", ours.len(), upstream.len());
    let found = differences(&ours, &upstream, OF_REQUESTS);
    ensure!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
    Ok(())
}
