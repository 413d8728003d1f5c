//! Rules that lower levels test too: `make soak PART=end-to-end` runs these.
#![allow(clippy::wildcard_imports, reason = "tests of the module above, run elsewhere")]

use super::*;

#[test]
fn a_sandbox_that_comes_after_its_pod_has_gone_is_ended() -> Result<()> {
    let mut node = FaultyNode::start()?;
    node.round_with_a_late_sandbox("web")?;
    node.round(&["web"], &[])?;
    node.stop()
}

#[test]
fn a_sandbox_that_the_runtime_is_still_making_holds_up_no_pod() -> Result<()> {
    let held = HeldRunc::make(1)?;
    let mut node = FaultyNode::start_with(&held.options())?;
    node.round_with_a_name_under_way("web", &held)?;
    node.round(&["web"], &[])?;
    node.stop()
}

#[test]
fn a_sandbox_that_the_runtime_gives_up_with_the_agent_leaves_nothing() -> Result<()> {
    let held = HeldRunc::make(1)?;
    let mut node = FaultyNode::start_with(&held.options())?;
    node.round_with_a_sandbox_that_is_given_up("web", &held)?;
    node.round(&["web"], &[])?;
    node.stop()
}

/// The pod's first container, a sidecar.
#[test]
fn a_container_that_the_runtime_takes_too_long_to_start_leaves_nothing_and_its_pod_runs()
-> Result<()> {
    slow_start(2)
}

#[test]
fn a_command_after_the_start_that_is_not_answered_is_made_up_for() -> Result<()> {
    let mut node = FaultyNode::start()?;
    node.round(&["web"], &[Fault::after_start("late")?])?;
    node.round(&["web"], &[])?;
    node.stop()
}
