//! What pods of the API ask for, one after the other on one node.

mod classes;
mod deletion;
mod environment;
mod ephemeral;
mod preemption;
mod resize;

use std::time::Instant;

use anyhow::{Context, Result};
use e2e::cluster_node::ClusterNode;
use e2e::node::PATIENCE;
use e2e::tidy::wait_tidy;
use testbed::{ControlPlaneOptions, Options};

use classes::SecondRuntime;

#[test]
fn pods_of_the_api_get_what_they_ask_for() -> Result<()> {
    let second = SecondRuntime::make()?;
    let runtime = Options { containerd_config: second.config(), ..Options::default() };
    let mut cluster = ClusterNode::start_on(&runtime, &ControlPlaneOptions::default())?;
    cluster.start_agent()?;
    let classes = |cluster: &ClusterNode| classes::classes(cluster, &second);
    let scenarios: [(&str, &dyn Fn(&ClusterNode) -> Result<()>); 6] = [
        ("environment", &environment::environment),
        ("deletion", &deletion::deletion),
        ("an ephemeral container", &ephemeral::ephemeral),
        ("runtime classes", &classes),
        ("a resize", &resize::resize),
        ("a preemption", &preemption::preemption),
    ];
    for (what, scenario) in scenarios {
        let begun = Instant::now();
        scenario(&cluster).context(what)?;
        println!("{what}: {:.1?}", begun.elapsed());
        wait_tidy(cluster.node(), &[], PATIENCE).with_context(|| format!("after {what}"))?;
    }
    cluster.stop()
}
