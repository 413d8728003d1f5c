//! Scenarios of a node in a cluster. `make soak` runs them with upstream too, and compares the observations.

use anyhow::Result;
use e2e::agent::Agent;
use e2e::scenarios::{of_controllers, of_pods};

// behaviour: NODE-21, NODE-25, NODE-28
// behaviour: OBJ-5, OBJ-6, OBJ-7, OBJ-23
// behaviour: OBJ-40
// behaviour: API-6, API-8, STW-12, STW-13
// behaviour: API-29, ACT-76
// behaviour: OBJ-20, OBJ-21, OBJ-24, OBJ-31
// behaviour: RSZ-1, RSZ-20, RSZ-21, RSZ-22
// behaviour: ADM-19, STW-2
// behaviour: API-20, API-21, API-22, API-23, API-24, API-26
// behaviour: PRS-1, PRS-2, PRS-4, PRS-5, PRS-6, PRS-7
// behaviour: API-34, NODE-43
#[test]
fn scenarios_of_api_pods_pass() -> Result<()> {
    of_pods(Agent::Ferrolet, |_| Ok(()))
}

// behaviour: API-16, API-17, API-18, API-19, API-34, NODE-43
#[test]
fn scenarios_of_controllers_and_scheduler_pass() -> Result<()> {
    of_controllers(Agent::Ferrolet, |_| Ok(()))
}
