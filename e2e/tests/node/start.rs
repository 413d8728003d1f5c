//! What the agent asks of the API server first.

use anyhow::Result;
use e2e::agent::Agent;
use e2e::first_requests::in_order;

// behaviour: API-31, NODE-50
#[test]
fn the_agents_first_requests_are_in_the_order_of_their_needs() -> Result<()> {
    in_order(Agent::Ferrolet)
}
