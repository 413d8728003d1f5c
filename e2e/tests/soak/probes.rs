//! Many probes with the shortest period restart no healthy container: upstream's stress test, 50 containers in 10 pods.

mod restart;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::node::{Node, PATIENCE};
use serde_json::Value;
use testbed::wait;

const PODS: usize = 10;
const CONTAINERS: usize = 5;
/// The port of the first container of a pod.
const FIRST_PORT: usize = 8080;
/// How long no container may restart.
const STABLE: Duration = Duration::from_mins(2);
/// The pause between two checks.
const CHECK: Duration = Duration::from_secs(5);

/// A pod whose containers run this server on different ports; `PORT` in the probe stands for them.
fn manifest(number: usize, server: &str, probe: &str) -> String {
    let containers = (0..CONTAINERS).map(|container| {
        let port = (FIRST_PORT + container).to_string();
        let probe = probe.replace("PORT", &port);
        format!(
            "  - name: c{container}\n    image: ferrolet.test/workload:1\n    args: [{server}, '{port}']\n    \
             livenessProbe: {{{probe}, periodSeconds: 1}}\n"
        )
    });
    let containers: String = containers.collect();
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: stress-{number}}}\nspec:\n  \
         terminationGracePeriodSeconds: 1\n  containers:\n{containers}"
    )
}

/// The statuses of all containers.
fn statuses(node: &Node) -> Result<Vec<Value>> {
    let listed = node.ferrolet(&["get", "pods", "-o", "json"])?;
    let listed: Value = serde_json::from_str(&listed).with_context(|| listed.clone())?;
    let pods = listed["items"].as_array().into_iter().flatten();
    let statuses = pods.filter_map(|pod| pod["status"]["containerStatuses"].as_array());
    Ok(statuses.flatten().cloned().collect())
}

/// The containers whose last probe passed.
fn passing(node: &Node) -> Result<usize> {
    let names = (0..PODS).map(|number| format!("stress-{number}-{}", e2e::node::NODE_NAME));
    let descriptions = names.map(|name| node.ferrolet(&["describe", &name]));
    let descriptions: Vec<String> = descriptions.collect::<Result<_>>()?;
    let lines = descriptions.iter().flat_map(|text| text.lines());
    let results = lines.filter_map(|line| line.trim().strip_prefix("Last Result:"));
    Ok(results.filter(|result| result.trim().starts_with("passed")).count())
}

fn no_restarts(server: &str, probe: &str) -> Result<()> {
    let mut node = Node::start()?;
    for number in 0..PODS {
        node.write_manifest(&format!("stress-{number}.yaml"), &manifest(number, server, probe))?;
    }
    node.start_agent()?;
    let all = PODS * CONTAINERS;
    node.explained(wait::until("all probes pass", 2 * PATIENCE, || {
        let passing = if statuses(&node)?.len() == all { passing(&node)? } else { 0 };
        Ok(if passing == all { Ok(()) } else { Err(format!("{passing} of {all}")) })
    }))?;
    let since = Instant::now();
    while since.elapsed() < STABLE {
        thread::sleep(CHECK);
        let statuses = statuses(&node)?;
        let stable = statuses
            .iter()
            .filter(|status| status["restartCount"] == 0 && status["state"]["running"].is_object());
        let (stable, after) = (stable.count(), since.elapsed());
        node.explained((stable == all).then_some(()).with_context(|| {
            format!(
                "{stable} of {all} containers run without a restart after {after:.0?}: {statuses:?}"
            )
        }))?;
    }
    let passing = passing(&node)?;
    ensure!(passing == all, "the last probe of {passing} of {all} containers passed");
    node.stop()
}

#[test]
fn http_probes_of_50_containers_cause_no_restart() -> Result<()> {
    no_restarts("serve", "httpGet: {port: PORT, path: /}")
}

#[test]
fn tcp_probes_of_50_containers_cause_no_restart() -> Result<()> {
    no_restarts("serve", "tcpSocket: {port: PORT}")
}

#[test]
fn grpc_probes_of_50_containers_cause_no_restart() -> Result<()> {
    no_restarts("grpc", "grpc: {port: PORT}")
}

#[test]
fn exec_probes_of_50_containers_cause_no_restart() -> Result<()> {
    no_restarts("serve", "exec: {command: [/workload, cat, /etc/hosts]}")
}
