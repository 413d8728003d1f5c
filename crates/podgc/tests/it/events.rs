//! Events about deletions.

use std::sync::Arc;
use std::time::Duration;

use model::cluster::PodPhase;
use podgc::events::{FLUSH, write_events};
use testkit::cluster::{ApiCall, CallFault};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::harness::{Harness, aged, threshold};

const DROPPED: &str = "ferrolet_pod_gc_events_dropped_total";
const SECOND: Duration = Duration::from_secs(1);

/// A cluster with this many pods to delete.
fn harness(deletions: u32) -> Harness {
    let harness = Harness::new(threshold(1));
    for number in 0..=deletions {
        let name = format!("p{number:03}");
        harness.cluster.create_pod(aged(&name, PodPhase::Failed, i64::from(number) + 1));
    }
    harness
}

/// Writes the controller's events until it is stopped, and then the remaining events.
fn writer(harness: &mut Harness, stop: &CancellationToken) -> impl Future<Output = ()> + use<> {
    let (_, nothing) = mpsc::channel(1);
    let coming = std::mem::replace(&mut harness.events, nothing);
    write_events(Arc::new(harness.cluster.clone()), coming, harness.metrics.clone(), stop.clone())
}

// behaviour: PGC-133
#[tokio::test(start_paused = true)]
async fn every_deletion_has_an_event_when_event_writes_are_slow() {
    let mut harness = harness(600);
    harness.cluster.inject_fault(ApiCall::Event, CallFault::Late(SECOND), 10_000);
    let stop = CancellationToken::new();
    let mut writing = JoinSet::new();
    writing.spawn(writer(&mut harness, &stop));
    harness.cycle().await;
    assert_eq!(harness.left(), ["p600"]);
    let deadline = Instant::now() + Duration::from_mins(5);
    while harness.cluster.events().len() < 600 {
        assert!(Instant::now() < deadline, "{} are written", harness.cluster.events().len());
        sleep(SECOND).await;
    }
    assert_eq!(harness.value(DROPPED), 0);
    stop.cancel();
    writing.join_all().await;
}

// behaviour: PGC-134
#[tokio::test(start_paused = true)]
async fn deletions_continue_when_events_cannot_be_written() {
    let rows = [
        (CallFault::Refused(403), 3, 3, 0),
        (CallFault::Unreachable, 3, 9, 0),
        (CallFault::Throttled(Some(SECOND)), 3, 9, 0),
        // The first waits for a response, and the others wait for room, once and together.
        (CallFault::Late(Duration::from_hours(24)), 900, 4, 30),
    ];
    for (trouble, deletions, calls, seconds) in rows {
        let mut harness = harness(deletions);
        harness.cluster.inject_fault(ApiCall::Event, trouble.clone(), 10_000);
        let stop = CancellationToken::new();
        let mut writing = JoinSet::new();
        writing.spawn(writer(&mut harness, &stop));
        let begun = Instant::now();
        harness.cycle().await;
        assert_eq!(harness.left().len(), 1, "{trouble:?}");
        assert_eq!(begun.elapsed(), SECOND * seconds, "{trouble:?}");
        sleep(SECOND * 30).await;
        assert_eq!(harness.cluster.calls_of(ApiCall::Event).len(), calls, "{trouble:?}");
        stop.cancel();
        writing.join_all().await;
        assert_eq!(harness.value(DROPPED), u64::from(deletions), "{trouble:?}");
    }
}

// behaviour: PGC-134
#[tokio::test(start_paused = true)]
async fn events_resume_after_a_successful_write() {
    let mut harness = harness(900);
    let late = Duration::from_mins(10);
    harness.cluster.inject_fault(ApiCall::Event, CallFault::Late(late), 4);
    let stop = CancellationToken::new();
    let mut writing = JoinSet::new();
    writing.spawn(writer(&mut harness, &stop));
    harness.cycle().await;
    sleep(late).await;
    let (dropped, written) = (harness.value(DROPPED), harness.cluster.events().len());
    assert_eq!((dropped, written), (900 - 260, 260), "four late ones, and the queued ones");
    for number in 0..300 {
        harness.cluster.create_pod(aged(&format!("q{number:03}"), PodPhase::Failed, number + 1));
    }
    let begun = Instant::now();
    harness.cycle().await;
    sleep(SECOND).await;
    assert_eq!((harness.value(DROPPED), harness.cluster.events().len()), (640, 560));
    assert!(begun.elapsed() < SECOND * 5, "{:?}", begun.elapsed());
    stop.cancel();
    writing.join_all().await;
}

// behaviour: PGC-134
#[tokio::test(start_paused = true)]
async fn event_with_a_lost_response_is_written_once() {
    let mut harness = harness(1);
    harness.cluster.inject_fault(ApiCall::Event, CallFault::AnswerLost, 1);
    let stop = CancellationToken::new();
    let mut writing = JoinSet::new();
    writing.spawn(writer(&mut harness, &stop));
    harness.cycle().await;
    sleep(SECOND * 5).await;
    assert_eq!((harness.cluster.events().len(), harness.value(DROPPED)), (1, 0));
    stop.cancel();
    writing.join_all().await;
}

// behaviour: PGC-135
#[tokio::test(start_paused = true)]
async fn queued_events_are_written_for_a_while_after_a_stop() {
    let stop = CancellationToken::new();
    stop.cancel();
    let mut quick = harness(100);
    quick.cycle().await;
    writer(&mut quick, &stop).await;
    assert_eq!((quick.cluster.events().len(), quick.value(DROPPED)), (100, 0));
    let mut slow = harness(100);
    slow.cluster.inject_fault(ApiCall::Event, CallFault::Late(SECOND), 10_000);
    slow.cycle().await;
    let begun = Instant::now();
    writer(&mut slow, &stop).await;
    assert_eq!(begun.elapsed(), FLUSH);
    let written = slow.cluster.events().len();
    assert!((16..=20).contains(&written), "{written}");
    assert_eq!(slow.value(DROPPED), 100 - u64::try_from(written).unwrap());
}
