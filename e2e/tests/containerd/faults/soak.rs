//! Rules that lower levels test too: `make soak PART=end-to-end` runs these.
#![allow(clippy::wildcard_imports, reason = "tests of the module above, run elsewhere")]

use super::*;

#[test]
fn sandbox_created_after_its_pod_was_deleted_is_removed() -> Result<()> {
    let mut node = FaultyNode::start()?;
    node.round_with_a_late_sandbox("web")?;
    node.round(&["web"], &[])?;
    node.stop()
}

#[test]
fn slow_sandbox_creation_delays_no_other_pod() -> Result<()> {
    let held = HeldRunc::make(1)?;
    let mut node = FaultyNode::start_with(&held.options())?;
    node.round_with_a_name_under_way("web", &held)?;
    node.round(&["web"], &[])?;
    node.stop()
}

#[test]
fn sandbox_creation_cancelled_with_the_agent_leaves_nothing() -> Result<()> {
    let held = HeldRunc::make(1)?;
    let mut node = FaultyNode::start_with(&held.options())?;
    node.round_with_a_sandbox_that_is_given_up("web", &held)?;
    node.round(&["web"], &[])?;
    node.stop()
}

/// The first container of the pod, a sidecar.
#[test]
fn container_start_that_times_out_leaves_nothing_and_its_pod_runs() -> Result<()> {
    slow_start(2)
}

#[test]
fn agent_recovers_from_a_late_post_start_hook_response() -> Result<()> {
    let mut node = FaultyNode::start()?;
    node.round(&["web"], &[Fault::after_start("late")?])?;
    node.round(&["web"], &[])?;
    node.stop()
}
