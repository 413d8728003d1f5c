//! The agent is killed and started again under 50 pods with readiness probes: no watcher of the API sees a change.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use e2e::api::Recording;
use e2e::cluster_node::{ClusterNode, PODS, is_ready, pod};
use e2e::node::PATIENCE;
use serde_json::{Value, json};
use testbed::{ControlPlaneOptions, wait};

const PODS_IN_ALL: usize = 50;
/// How often the agent is killed.
const KILLS: usize = 3;
/// How many requests each HTTP server gets before the next kill.
const PROBES: usize = 3;

fn name(number: usize) -> String {
    format!("probed-{number}")
}

/// A pod with a server and probes of one kind: HTTP, TCP, gRPC and command take turns.
fn probed_pod(number: usize) -> Value {
    let (args, probe) = match number % 4 {
        0 => (["serve", "8080"], json!({ "httpGet": { "port": 8080 }, "periodSeconds": 1 })),
        1 => (["serve", "8080"], json!({ "tcpSocket": { "port": 8080 }, "periodSeconds": 1 })),
        2 => (["grpc", "9090"], json!({ "grpc": { "port": 9090 }, "periodSeconds": 1 })),
        // Each starts a process.
        _ => (
            ["sleep", "forever"],
            json!({ "exec": { "command": ["/workload", "uid"] }, "periodSeconds": 3, "timeoutSeconds": 3 }),
        ),
    };
    let mut pod = pod(&name(number), &args);
    pod["metadata"]["labels"] = json!({ "app": "probed" });
    pod["spec"]["containers"][0]["readinessProbe"] = probe;
    pod
}

/// The number of requests that each HTTP server has answered.
fn requests(cluster: &ClusterNode, pods: &[Value]) -> Result<Vec<usize>> {
    let servers = pods
        .iter()
        .filter(|pod| pod["spec"]["containers"][0]["readinessProbe"]["httpGet"].is_object());
    let counts = servers.map(|pod| Ok(cluster.log(pod, "main")?.matches("GET / ").count()));
    counts.collect()
}

fn wait_for_probes(cluster: &ClusterNode, pods: &[Value]) -> Result<()> {
    let before = requests(cluster, pods)?;
    ensure!(before.len() > PODS_IN_ALL / 5, "only {} servers are probed by HTTP", before.len());
    cluster.node().explained(wait::until("each server is probed", PATIENCE, || {
        let now = requests(cluster, pods)?;
        let all = now.iter().zip(&before).all(|(now, before)| *now >= before + PROBES);
        Ok(if all { Ok(()) } else { Err(format!("{before:?}, then {now:?}")) })
    }))
}

/// Fails if a version of one of the pods is not ready.
fn ensure_ready_throughout(recording: &Recording) -> Result<()> {
    let names: BTreeSet<String> = (0..PODS_IN_ALL).map(name).collect();
    for object in recording.objects()? {
        if !object["metadata"]["name"].as_str().is_some_and(|name| names.contains(name)) {
            continue;
        }
        let status = &object["status"]["containerStatuses"][0];
        let is_steady = status["ready"] == true && status["restartCount"] == 0;
        ensure!(is_ready(&object) && is_steady, "a watcher has seen {object:#}");
    }
    Ok(())
}

#[test]
fn readiness_of_50_pods_stays_when_the_agent_is_killed() -> Result<()> {
    let mut cluster = ClusterNode::start(&ControlPlaneOptions::default())?;
    cluster.start_agent()?;
    cluster.wait_node_ready()?;
    for number in 0..PODS_IN_ALL {
        cluster.api().create(PODS, &probed_pod(number))?;
    }
    let mut pods = Vec::new();
    for number in 0..PODS_IN_ALL {
        pods.push(cluster.wait_ready_at_last(&ClusterNode::pod_path(&name(number)))?);
    }
    let recording = cluster.api().record(PODS)?;
    for kill in 0..KILLS {
        cluster.kill_agent()?;
        cluster.start_agent()?;
        // The agent watches the API and acts.
        let late = format!("late-{kill}");
        cluster.make_pod(&late, &["sleep", "forever"])?;
        cluster.wait_ready_at_last(&ClusterNode::pod_path(&late))?;
        wait_for_probes(&cluster, &pods)?;
        ensure_ready_throughout(&recording).with_context(|| format!("after kill {}", kill + 1))?;
    }
    let late = recording.objects()?;
    let seen = late.iter().any(|object| object["metadata"]["name"] == "late-0" && is_ready(object));
    ensure!(seen, "the watcher has missed a pod that became ready");
    for pod in cluster.api().list(&format!("{PODS}?labelSelector=app%3Dprobed"))? {
        ensure!(is_ready(&pod), "{pod:#}");
    }
    cluster.stop()
}
