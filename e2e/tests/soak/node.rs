//! A node of a cluster: our agent and the upstream kubelet get the same requests, and the observations must be equal.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::agent::Agent;
use e2e::api_outage::without_the_api_server;
use e2e::cluster_node::ClusterNode;
use e2e::differences::{KnownDifference, differences, leaves};
use e2e::first_requests::in_order;
use e2e::node_values::{DIFFERENT, node_values};
use e2e::observations::Observations;
use e2e::scenarios::{of_controllers, of_pods};

use crate::known::{OF_A_NODE, OF_PODS};

/// Runs scenarios with both agents at the same time, each on its own node and cluster, and compares the observations.
fn same(
    known: &[KnownDifference],
    play: impl Fn(Agent) -> Result<Observations> + Sync,
) -> Result<()> {
    let play = &play;
    let [ours, upstream] = thread::scope(|threads| {
        let plays = [Agent::Ferrolet, Agent::Upstream]
            .map(|agent| threads.spawn(move || play(agent).with_context(|| agent.name())));
        plays.map(|played| played.join().expect("a run does not panic"))
    });
    let (ours, upstream) = (ours?, upstream?);
    ours.ensure_whole().context("ours")?;
    upstream.ensure_whole().context("upstream's")?;
    let mut found = differences(&node_values(&ours.node), &node_values(&upstream.node), DIFFERENT);
    let (ours, upstream) = (serde_json::to_value(ours.play)?, serde_json::to_value(upstream.play)?);
    let (ours, upstream) = (leaves(&ours), leaves(&upstream));
    println!("{} values of ours and {} of upstream's compared", ours.len(), upstream.len());
    found.extend(differences(&ours, &upstream, known));
    ensure!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
    Ok(())
}

#[test]
fn pods_and_their_statuses_are_the_same_with_both_agents() -> Result<()> {
    same(&[OF_A_NODE, OF_PODS].concat(), |agent| of_pods(agent, ClusterNode::seen))
}

#[test]
fn controllers_and_scheduler_see_equal_results_with_both_agents() -> Result<()> {
    same(OF_A_NODE, |agent| of_controllers(agent, ClusterNode::seen))
}

#[test]
fn pods_keep_running_for_a_minute_without_api_server_with_both_agents() -> Result<()> {
    same(OF_A_NODE, |agent| {
        without_the_api_server(agent, Duration::from_mins(1), ClusterNode::seen)
    })
}

#[test]
fn first_api_requests_of_upstream_are_in_our_order() -> Result<()> {
    in_order(Agent::Upstream)
}
