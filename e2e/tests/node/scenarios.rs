//! What a cluster asks of a node. `make soak` asks upstream the same, and compares what is seen.

use anyhow::Result;
use e2e::agent::Agent;
use e2e::scenarios::{of_controllers, of_pods};

#[test]
fn pods_of_the_api_get_what_they_ask_for() -> Result<()> {
    of_pods(Agent::Ferrolet, |_| Ok(()))
}

#[test]
fn controllers_and_the_scheduler_get_what_they_ask_for() -> Result<()> {
    of_controllers(Agent::Ferrolet, |_| Ok(()))
}
