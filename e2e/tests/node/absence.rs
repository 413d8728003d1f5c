//! The API server is away for a while.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::cluster_node::ClusterNode;
use e2e::node::PATIENCE;
use testbed::{ControlPlaneOptions, wait};

/// How long the API server is away at least.
const AWAY: Duration = Duration::from_secs(20);

// behaviour: API-7, STW-35
#[test]
fn without_the_api_server_pods_go_on_and_afterwards_it_hears_of_it() -> Result<()> {
    let mut cluster = ClusterNode::start(&ControlPlaneOptions::default())?;
    cluster.start_agent()?;
    for name in ["steady", "shaken"] {
        cluster.make_pod(name, &["sleep", "forever"])?;
    }
    for name in ["steady", "shaken"] {
        cluster.wait_ready(&ClusterNode::pod_path(name))?;
    }
    let steady = cluster.running("steady")?;
    let shaken = cluster.running("shaken")?;

    cluster.stop_api_server()?;
    let begun = Instant::now();
    cluster.node().run("kill", &["-9", &shaken.pid.to_string()])?;
    let replaced = wait::until("another container of shaken runs", PATIENCE, || {
        let running = cluster.running("shaken");
        Ok(match running {
            Ok(running) if running.id != shaken.id => Ok(running),
            other => Err(format!("{other:?}")),
        })
    })?;
    wait::until("the absence lasts", PATIENCE, || {
        Ok(if begun.elapsed() >= AWAY { Ok(()) } else { Err("not long enough".to_owned()) })
    })?;
    ensure!(cluster.running("steady")?.id == steady.id, "a pod was restarted for nothing");

    cluster.start_api_server()?;
    cluster.wait_for(&ClusterNode::pod_path("shaken"), "the restart is told", |pod| {
        let status = &pod?["status"]["containerStatuses"][0];
        (status["restartCount"] == 1 && status["ready"] == true).then_some(())
    })?;
    // And what is wanted now is heard.
    cluster.make_pod("late", &["sleep", "forever"])?;
    cluster.wait_ready(&ClusterNode::pod_path("late"))?;
    ensure!(cluster.running("steady")?.id == steady.id, "a pod was restarted for nothing");
    ensure!(cluster.running("shaken")?.id == replaced.id, "a pod was restarted for nothing");
    cluster.stop()
}
