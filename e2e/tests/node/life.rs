//! A pod of the cluster from its start to its end.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::cluster_node::ClusterNode;
use e2e::node::PATIENCE;
use testbed::ControlPlaneOptions;

/// How long the node may take to become ready on a slow, shared machine. Mostly it takes a second.
const READY: Duration = Duration::from_secs(10);

/// The connections of the agent to its API server.
fn connections(cluster: &ClusterNode) -> Result<Vec<String>> {
    let server = cluster.control_plane().server();
    let port = server.rsplit(':').next().unwrap_or_default();
    let established = ["-Htnp", "state", "established", "dport", "=", &format!(":{port}")];
    let all = cluster.node().run("ss", &established)?;
    let of_agent = all.lines().filter(|line| line.contains("(\"ferrolet\","));
    Ok(of_agent.map(ToOwned::to_owned).collect())
}

// behaviour: API-6, API-9, NODE-38, NODE-51, NODE-53, STW-11, STW-12, STW-13
#[test]
fn pod_runs_survives_agent_restart_and_is_deleted() -> Result<()> {
    let mut cluster = ClusterNode::start(&ControlPlaneOptions::default())?;
    cluster.put_identity_into_one_file()?;
    let begun = Instant::now();
    cluster.start_agent()?;
    cluster.wait_node_ready()?;
    let took = begun.elapsed();
    println!("the node is ready {took:.1?} after the agent was started");
    ensure!(took <= READY, "the node was ready only after {took:.1?}");
    cluster.make_pod("sleeper", &["sleep", "forever"])?;
    let path = ClusterNode::pod_path("sleeper");
    let pod = cluster.wait_ready(&path)?;
    let status = &pod["status"];
    ensure!(status["podIP"].is_string() && status["hostIP"].is_string(), "{status}");
    ensure!(status["observedGeneration"] == pod["metadata"]["generation"], "{status}");
    ensure!(status["qosClass"] == "BestEffort", "{status}");
    let connections = connections(&cluster)?;
    ensure!(connections.len() == 1, "{connections:#?}");
    let container = cluster.running("sleeper")?;
    let id = format!("containerd://{}", container.id);
    ensure!(status["containerStatuses"][0]["containerID"] == id, "{status}");

    cluster.kill_agent()?;
    cluster.start_agent()?;
    // A second pod shows that the new agent watches the API and acts.
    cluster.make_pod("second", &["sleep", "forever"])?;
    cluster.wait_ready(&ClusterNode::pod_path("second"))?;
    ensure!(cluster.running("sleeper")?.id == container.id, "the container was restarted");
    let after = cluster.wait_ready(&path)?;
    ensure!(after["status"] == pod["status"], "{} became {}", pod["status"], after["status"]);

    let api = cluster.api();
    api.delete(&path)?;
    cluster.wait_gone(&path, PATIENCE)?;
    ensure!(cluster.containers("sleeper")?.iter().all(|one| !one.is_alive()), "it still runs");
    // A forced deletion, at once.
    let second = ClusterNode::pod_path("second");
    api.delete_with_grace(&second, 0)?;
    cluster.node().wait_for_log(&["Pod terminated and cleaned up", "shop/second"])?;
    cluster.stop()
}
