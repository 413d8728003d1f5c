//! The API server is down for a while, and the node keeps working.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testbed::{ControlPlaneOptions, Options, wait};

use crate::agent::Agent;
use crate::cluster_node::{ClusterNode, PODS, pod};
use crate::node::PATIENCE;

/// Stops the API server of a node with pods for at least this time: running pods keep running, containers that end are
/// restarted, and the agent reports all of it once the API server is back. `look` inspects the node at the end.
pub fn without_the_api_server<T>(
    agent: Agent,
    away: Duration,
    look: impl FnOnce(&ClusterNode) -> Result<T>,
) -> Result<T> {
    let options = ControlPlaneOptions::default();
    let mut cluster = ClusterNode::start_with(&Options::default(), &options, agent)?;
    cluster.record().borrow_mut().begin("an absence");
    cluster.start_agent()?;
    cluster.wait_node_ready()?;
    for name in ["steady", "shaken"] {
        cluster.make_pod(name, &["sleep", "forever"])?;
    }
    let mut ending = pod("ending", &["sleep", "12s"]);
    ending["spec"]["restartPolicy"] = "Never".into();
    for name in ["steady", "shaken"] {
        cluster.wait_ready(&ClusterNode::pod_path(name))?;
    }
    cluster.api().create(PODS, &ending)?;
    cluster.wait_ready(&ClusterNode::pod_path("ending"))?;
    let steady = cluster.running("steady")?;
    let shaken = cluster.running("shaken")?;

    cluster.kill_api_server()?;
    let begun = Instant::now();
    cluster.node().run("kill", &["-9", &shaken.pid.to_string()])?;
    let replaced = wait::until("another container of shaken runs", PATIENCE, || {
        let running = cluster.running("shaken");
        Ok(match running {
            Ok(running) if running.id != shaken.id => Ok(running),
            other => Err(format!("{other:?}")),
        })
    })?;
    wait::until("the outage lasts", away + PATIENCE, || {
        Ok(if begun.elapsed() >= away { Ok(()) } else { Err("not long enough".to_owned()) })
    })?;
    ensure!(cluster.running("steady")?.id == steady.id, "a pod was restarted without a reason");

    cluster.start_api_server()?;
    let back = Instant::now();
    cluster.wait_for(&ClusterNode::pod_path("shaken"), "the restart is reported", |pod| {
        let status = &pod?["status"]["containerStatuses"][0];
        (status["restartCount"] == 1 && status["ready"] == true).then_some(())
    })?;
    let over = cluster.wait_over(&ClusterNode::pod_path("ending"))?;
    ensure!(over["status"]["phase"] == "Succeeded", "{over}");
    println!("{}: reported {:.1?} after the API server was back", agent.name(), back.elapsed());
    // The watch works again: a new pod arrives.
    cluster.make_pod("late", &["sleep", "forever"])?;
    cluster.wait_ready_at_last(&ClusterNode::pod_path("late"))?;
    ensure!(cluster.running("steady")?.id == steady.id, "a pod was restarted without a reason");
    ensure!(cluster.running("shaken")?.id == replaced.id, "a pod was restarted without a reason");
    let pods = ["steady", "shaken", "ending", "late"];
    cluster.remove_pods(&pods).context("pods that survived the outage can be deleted")?;
    let seen = look(&cluster)?;
    cluster.stop()?;
    Ok(seen)
}
