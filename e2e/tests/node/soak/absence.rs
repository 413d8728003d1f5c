//! The API server is away for a while; for longer in `make soak`.

use std::time::Duration;

use anyhow::Result;
use e2e::absence::without_the_api_server;
use e2e::agent::Agent;

#[test]
fn without_the_api_server_pods_go_on_and_afterwards_it_hears_of_it() -> Result<()> {
    without_the_api_server(Agent::Ferrolet, Duration::from_secs(20), |_| Ok(()))
}
