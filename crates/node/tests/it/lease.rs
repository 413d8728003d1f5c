use std::time::Duration;

use jiff::Timestamp;
use node::Pressure;
use testkit::cluster::CallFault;
use testkit::cluster::node_api::NodeApiCall;
use tokio::time::Instant;

use crate::harness::{Harness, NAME, is_ready, pass, wait};

fn renewed(harness: &Harness) -> Option<Timestamp> {
    Some(harness.api.lease(NAME)?.spec?.renew_time?.0)
}

// behaviour: NODE-30
#[tokio::test(start_paused = true)]
async fn lease_is_created_and_renewed_at_a_quarter_of_its_duration() {
    let harness = Harness::new();
    let _running = harness.start();
    let node = harness.node(is_ready).await;
    let lease = wait(|| harness.api.lease(NAME)).await;
    let owners = lease.metadata.owner_references.unwrap();
    assert_eq!(Some(&owners[0].uid), node.metadata.uid.as_ref());
    pass(100).await;
    let renewals = harness.api.count(NodeApiCall::UpdateLease);
    assert!((9..=10).contains(&renewals), "{renewals}");
    assert_eq!(harness.api.count(NodeApiCall::CreateLease), 1);
    assert_eq!(harness.api.count(NodeApiCall::GetLease), 1, "a renewal is one call");
}

// behaviour: NODE-31
#[tokio::test(start_paused = true)]
async fn lease_changed_by_another_client_is_renewed() {
    let harness = Harness::new();
    let _running = harness.start();
    wait(|| harness.api.lease(NAME)).await;
    harness.api.update_lease(NAME, |lease| {
        lease.metadata.labels = Some([("theirs".to_owned(), "x".to_owned())].into());
    });
    let before = renewed(&harness);
    wait(|| (renewed(&harness) > before).then_some(())).await;
    let lease = harness.api.lease(NAME).unwrap();
    assert_eq!(lease.metadata.labels.unwrap()["theirs"], "x");
    harness.api.drop_lease(NAME);
    wait(|| harness.api.lease(NAME)).await;
}

// behaviour: NODE-32
#[tokio::test(start_paused = true)]
async fn lease_is_renewed_within_seconds_after_server_recovery() {
    let harness = Harness::new();
    let _running = harness.start();
    wait(|| harness.api.lease(NAME)).await;
    for call in [NodeApiCall::UpdateLease, NodeApiCall::GetLease] {
        harness.api.inject_fault(call, CallFault::Unreachable, u32::MAX);
    }
    harness.api.forget_calls();
    pass(600).await;
    let requested = harness.api.calls().len();
    assert!(requested < 120, "{requested} calls in ten minutes");
    harness.api.clear_faults();
    let (before, begin) = (renewed(&harness), Instant::now());
    wait(|| (renewed(&harness) > before).then_some(())).await;
    assert!(begin.elapsed() <= Duration::from_secs(8), "{:?}", begin.elapsed());
}

// behaviour: NODE-32
#[tokio::test(start_paused = true)]
async fn lease_is_renewed_while_status_writes_fail() {
    let harness = Harness::new();
    let running = harness.start();
    harness.node(is_ready).await;
    wait(|| harness.api.lease(NAME)).await;
    harness.api.inject_fault(NodeApiCall::Patch, CallFault::Refused(500), u32::MAX);
    harness.api.inject_fault(NodeApiCall::Get, CallFault::Late(Duration::from_mins(1)), u32::MAX);
    running.handle.set_pressure(Pressure { pid: true, ..Pressure::default() });
    let before = harness.api.count(NodeApiCall::UpdateLease);
    pass(120).await;
    assert!(harness.api.count(NodeApiCall::UpdateLease) - before >= 11);
}

// behaviour: NODE-34
#[tokio::test(start_paused = true)]
async fn no_lease_is_created_for_a_missing_node() {
    let harness = Harness::new();
    harness.api.inject_fault(NodeApiCall::Create, CallFault::Refused(500), 6);
    let _running = harness.start();
    pass(3).await;
    assert!(harness.api.node(NAME).is_none() && harness.api.lease(NAME).is_none());
    harness.node(is_ready).await;
    let begin = Instant::now();
    wait(|| harness.api.lease(NAME)).await;
    assert!(begin.elapsed() <= Duration::from_secs(1), "{:?}", begin.elapsed());
}
