//! Scenarios of a node in a cluster, one after the other on one node. With our agent and with the upstream kubelet,
//! the result must be the same.

mod classes;
mod deletion;
mod environment;
mod ephemeral;
mod kinds;
pub mod kubectl_streams;
mod mirror;
mod network;
mod pod_resources;
mod preemption;
mod resize;
mod workloads;

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testbed::{ControlPlaneOptions, Options, User};

use crate::agent::Agent;
use crate::audit::Audit;
use crate::cluster_node::ClusterNode;
use crate::node::{NODE_NAME, PATIENCE};
use crate::plane::with_controllers;
use crate::tidy::wait_tidy;

pub use self::mirror::MANIFEST;

use self::classes::SecondRuntime;

/// A scenario; it leaves nothing behind.
type Scenario<'a> = (&'static str, &'a dyn Fn(&ClusterNode) -> Result<()>);

/// Scenarios of users of the API: there are no controllers, and pods are bound to the node from the start. `look`
/// inspects the node at the end.
pub fn of_pods<T>(agent: Agent, look: impl FnOnce(&ClusterNode) -> Result<T>) -> Result<T> {
    let second = SecondRuntime::make()?;
    let runtime =
        Options { containerd_config: second.config(), without_network: true, ..Options::default() };
    let audit = Audit::of(User::node(NODE_NAME).name())?;
    let options =
        ControlPlaneOptions { api_server: audit.flags(), ..ControlPlaneOptions::default() };
    let mut cluster = ClusterNode::start_with(&runtime, &options, agent)?;
    cluster.start_agent()?;
    let classes = |cluster: &ClusterNode| classes::classes(cluster, &second);
    let scenarios: [Scenario<'_>; 11] = [
        // The first scenario: it configures the network of the node, so that the node becomes
        // ready.
        ("no network yet", &network::network),
        ("pods of all kinds", &kinds::kinds),
        ("environment", &environment::environment),
        ("another environment", &environment::another),
        ("deletion", &deletion::deletion),
        ("an ephemeral container", &ephemeral::ephemeral),
        ("runtime classes", &classes),
        ("a resize", &resize::resize),
        ("a preemption", &preemption::preemption),
        ("a static pod", &mirror::mirror),
        ("the resources of pods", &pod_resources::pod_resources),
    ];
    one_by_one(&cluster, &scenarios)?;
    suffices(agent, &audit)?;
    let seen = look(&cluster)?;
    cluster.stop()?;
    Ok(seen)
}

/// Scenarios of controllers and the scheduler. `look` inspects the node at the end.
pub fn of_controllers<T>(agent: Agent, look: impl FnOnce(&ClusterNode) -> Result<T>) -> Result<T> {
    let audit = Audit::of(User::node(NODE_NAME).name())?;
    let options = ControlPlaneOptions {
        api_server: audit.flags(),
        scheduler: Some(Vec::new()),
        ..with_controllers(&workloads::CONTROLLERS)
    };
    let mut cluster = ClusterNode::start_with(&Options::default(), &options, agent)?;
    let begun = Instant::now();
    cluster.start_agent()?;
    cluster.wait_schedulable()?;
    println!("{}: takes pods of the scheduler after {:.1?}", agent.name(), begun.elapsed());
    let scenarios: [Scenario<'_>; 4] = [
        ("a deployment", &workloads::deployment),
        ("a daemon set", &workloads::daemon_set),
        ("jobs", &workloads::jobs),
        ("a taint", &workloads::taint),
    ];
    one_by_one(&cluster, &scenarios)?;
    suffices(agent, &audit)?;
    let seen = look(&cluster)?;
    cluster.stop()?;
    Ok(seen)
}

/// The user agent of our agent; all crates have one version.
const USER_AGENT: &str = concat!("kubelet/v1.36.3 ferrolet/", env!("CARGO_PKG_VERSION"));

/// Checks that our agent only made calls that the Node authorizer and `NodeRestriction` permit, and sent its user
/// agent.
fn suffices(agent: Agent, audit: &Audit) -> Result<()> {
    let calls = audit.calls()?;
    let is_status_patch = |call: &&Value| {
        let object = &call["objectRef"];
        let is_status = object["resource"] == "pods" && object["subresource"] == "status";
        is_status && call["verb"] == "patch" && call["responseStatus"]["code"] == 200
    };
    let updates = calls.iter().filter(is_status_patch).count();
    println!(
        "{}: {} calls, {updates} of them update the status of a pod",
        agent.name(),
        calls.len()
    );
    ensure!(updates > 0, "no status of a pod was updated: {calls:#?}");
    if agent != Agent::Ferrolet {
        return Ok(());
    }
    let another = calls.iter().find(|call| call["userAgent"] != USER_AGENT);
    ensure!(another.is_none(), "not by {USER_AGENT}: {another:#?}");
    audit.nothing_was_refused()
}

fn one_by_one(cluster: &ClusterNode, scenarios: &[Scenario<'_>]) -> Result<()> {
    let agent = cluster.node().agent_name();
    for &(what, scenario) in scenarios {
        let begun = Instant::now();
        cluster.record().borrow_mut().begin(what);
        scenario(cluster).with_context(|| format!("{agent}: {what}"))?;
        println!("{agent}: {what}: {:.1?}", begun.elapsed());
        wait_tidy(cluster.node(), &[], PATIENCE)
            .with_context(|| format!("{agent}: after {what}"))?;
    }
    Ok(())
}
