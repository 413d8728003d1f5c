//! The API server is down for a while; for longer in `make soak`.

use std::time::Duration;

use anyhow::Result;
use e2e::agent::Agent;
use e2e::api_outage::without_the_api_server;

#[test]
fn pods_keep_running_without_the_api_server_and_are_reported_later() -> Result<()> {
    without_the_api_server(Agent::Ferrolet, Duration::from_secs(20), |_| Ok(()))
}
