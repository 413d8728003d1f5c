//! A node of a cluster, for longer.

use std::time::Duration;

use anyhow::Result;
use e2e::absence::without_the_api_server;

// behaviour: API-7, STW-35
#[test]
fn without_the_api_server_for_a_minute_pods_go_on() -> Result<()> {
    without_the_api_server(Duration::from_mins(1))
}
