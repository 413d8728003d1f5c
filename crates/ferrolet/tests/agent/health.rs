//! Health checks of the agent.

use std::time::Duration;

use testkit::runtime::{Fault, Method, Rule};

use crate::harness::Harness;

// behaviour: NODE-60
#[tokio::test(start_paused = true)]
async fn watchdog_checks_pass_while_the_runtime_hangs() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let agent = harness.start();
    harness.one_runs("web").await;
    for method in [Method::ListPodSandbox, Method::ListContainers, Method::Version, Method::Status]
    {
        harness.runtime.inject(Rule::on(method, Fault::hang()));
    }
    // Longer than it takes until the PLEG is unhealthy, and than the limit of the sync loop.
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_mins(1)).await;
        for check in agent.health().checks() {
            assert_eq!(check.result, Ok(()), "{}", check.name);
        }
    }
}

/// The sample unit keeps secrets of pods out of core dumps and files.
#[test]
fn systemd_unit_limits_core_dumps_and_modes() {
    let unit = include_str!("../../../../examples/systemd/ferrolet.service");
    for setting in ["LimitCORE=0", "UMask=0077", "WatchdogSec=60"] {
        assert!(unit.lines().any(|line| line == setting), "{setting}");
    }
}
