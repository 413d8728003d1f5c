use std::time::Duration;

use jiff::Timestamp;
use node::Pressure;
use testkit::cluster::Trouble;
use testkit::cluster::node_api::NodeAsk;
use tokio::time::Instant;

use crate::world::{NAME, World, is_ready, pass, wait};

fn renewed(world: &World) -> Option<Timestamp> {
    Some(world.api.lease(NAME)?.spec?.renew_time?.0)
}

// behaviour: NODE-30
#[tokio::test(start_paused = true)]
async fn a_lease_is_made_and_renewed_at_a_quarter_of_its_time() {
    let world = World::new();
    let _running = world.start();
    let node = world.node(is_ready).await;
    let lease = wait(|| world.api.lease(NAME)).await;
    let owners = lease.metadata.owner_references.unwrap();
    assert_eq!(Some(&owners[0].uid), node.metadata.uid.as_ref());
    pass(100).await;
    let renewals = world.api.count(NodeAsk::UpdateLease);
    assert!((9..=10).contains(&renewals), "{renewals}");
    assert_eq!(world.api.count(NodeAsk::CreateLease), 1);
    assert_eq!(world.api.count(NodeAsk::GetLease), 1, "a renewal is one call");
}

// behaviour: NODE-31
#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_touched_is_renewed_all_the_same() {
    let world = World::new();
    let _running = world.start();
    wait(|| world.api.lease(NAME)).await;
    world.api.update_lease(NAME, |lease| {
        lease.metadata.labels = Some([("theirs".to_owned(), "x".to_owned())].into());
    });
    let before = renewed(&world);
    wait(|| (renewed(&world) > before).then_some(())).await;
    let lease = world.api.lease(NAME).unwrap();
    assert_eq!(lease.metadata.labels.unwrap()["theirs"], "x");
    world.api.drop_lease(NAME);
    wait(|| world.api.lease(NAME)).await;
}

// behaviour: NODE-32
#[tokio::test(start_paused = true)]
async fn a_server_that_comes_back_hears_of_the_node_within_seconds() {
    let world = World::new();
    let _running = world.start();
    wait(|| world.api.lease(NAME)).await;
    for ask in [NodeAsk::UpdateLease, NodeAsk::GetLease] {
        world.api.trouble(ask, Trouble::Unreachable, u32::MAX);
    }
    world.api.forget_calls();
    pass(600).await;
    let asked = world.api.calls().len();
    assert!(asked < 120, "{asked} calls in ten minutes");
    world.api.end_troubles();
    let (before, begin) = (renewed(&world), Instant::now());
    wait(|| (renewed(&world) > before).then_some(())).await;
    assert!(begin.elapsed() <= Duration::from_secs(8), "{:?}", begin.elapsed());
}

// behaviour: NODE-32
#[tokio::test(start_paused = true)]
async fn the_lease_is_renewed_whatever_becomes_of_the_status() {
    let world = World::new();
    let running = world.start();
    world.node(is_ready).await;
    wait(|| world.api.lease(NAME)).await;
    world.api.trouble(NodeAsk::Patch, Trouble::Refused(500), u32::MAX);
    world.api.trouble(NodeAsk::Get, Trouble::Late(Duration::from_mins(1)), u32::MAX);
    running.handle.set_pressure(Pressure { pid: true, ..Pressure::default() });
    let before = world.api.count(NodeAsk::UpdateLease);
    pass(120).await;
    assert!(world.api.count(NodeAsk::UpdateLease) - before >= 11);
}

// behaviour: NODE-34
#[tokio::test(start_paused = true)]
async fn no_lease_is_made_for_a_node_that_is_not_there() {
    let world = World::new();
    world.api.trouble(NodeAsk::Create, Trouble::Refused(500), 6);
    let _running = world.start();
    pass(3).await;
    assert!(world.api.node(NAME).is_none() && world.api.lease(NAME).is_none());
    world.node(is_ready).await;
    let begin = Instant::now();
    wait(|| world.api.lease(NAME)).await;
    assert!(begin.elapsed() <= Duration::from_secs(1), "{:?}", begin.elapsed());
}
