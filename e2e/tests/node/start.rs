//! The agent's first API requests.

use anyhow::Result;
use e2e::agent::Agent;
use e2e::first_requests::in_order;

// behaviour: API-31, NODE-50
#[test]
fn first_api_requests_of_the_agent_are_in_order() -> Result<()> {
    in_order(Agent::Ferrolet)
}
