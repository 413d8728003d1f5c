use model::cluster::{PodPhase, PodRecord};
use testkit::cluster::{ApiCall, node, pod};

use crate::harness::{Harness, aged, settings, threshold};
use PodPhase::{Failed, Pending, Running, Succeeded, Unknown};

fn evicted(name: &str, created: i64) -> PodRecord {
    PodRecord { is_evicted: true, ..aged(name, Failed, created) }
}

/// Checks which of the pods are deleted at this threshold, in order.
async fn row(pods: impl IntoIterator<Item = PodRecord>, most: i64, gone: &[&str]) -> Harness {
    let mut harness = Harness::new(threshold(most));
    for pod in pods {
        harness.cluster.create_pod(pod);
    }
    harness.cycle().await;
    let mut requested = harness.cluster.calls_of(ApiCall::RemovePod);
    let mut expected: Vec<String> = gone.iter().map(|name| format!("default/{name}")).collect();
    assert_eq!(requested.first(), expected.first(), "the first deletion");
    requested.sort();
    expected.sort();
    assert_eq!(requested, expected);
    harness
}

// behaviour: PGC-1
#[tokio::test(start_paused = true)]
async fn oldest_pods_beyond_the_threshold_are_deleted_unmarked() {
    let pods = [aged("a", Failed, 1), aged("b", Succeeded, 2), aged("c", Failed, 3)];
    let harness = row(pods, 1, &["a", "b"]).await;
    assert_eq!(harness.left(), ["c"]);
    assert_eq!(harness.cluster.calls_of(ApiCall::FailPod), [""; 0]);
    assert_eq!(harness.tried("terminated"), (2, 0));
}

// behaviour: PGC-2
#[tokio::test(start_paused = true)]
async fn nonpositive_threshold_disables_only_the_terminated_pass() {
    for most in [0, -1] {
        let pods = [aged("a", Failed, 1), aged("b", Succeeded, 2)];
        let harness = row(pods, most, &[]).await;
        assert_eq!(harness.left(), ["a", "b"]);
        let mut harness = Harness::new(threshold(most));
        harness.cluster.create_pod(pod("c"));
        harness.cluster.terminate_pod("c");
        harness.cycle().await;
        assert_eq!(harness.left(), [""; 0], "never scheduled");
    }
}

// behaviour: PGC-3
#[tokio::test(start_paused = true)]
async fn running_pods_are_not_counted_and_stay() {
    let pods = [aged("a", Running, 1), aged("b", Succeeded, 2), aged("c", Failed, 3)];
    row(pods, 1, &["b"]).await;
    let pods = [aged("a", Pending, 1), aged("b", Unknown, 2), aged("c", Failed, 3)];
    row(pods, 1, &[]).await;
}

// behaviour: PGC-4
#[tokio::test(start_paused = true)]
async fn no_pod_is_deleted_below_the_threshold() {
    row([aged("a", Failed, 1), aged("b", Succeeded, 2)], 5, &[]).await;
    row([aged("a", Failed, 1), aged("b", Succeeded, 2)], 2, &[]).await;
}

// behaviour: PGC-5
#[tokio::test(start_paused = true)]
async fn evicted_pods_are_deleted_first_at_any_age() {
    let harness =
        row([aged("a", Failed, 1), aged("b", Succeeded, 2), evicted("c", 3)], 1, &["c", "a"]);
    assert_eq!(harness.await.left(), ["b"]);
}

// behaviour: PGC-6
#[tokio::test(start_paused = true)]
async fn evicted_pod_is_deleted_before_a_succeeded_one() {
    row([aged("a", Running, 1), aged("b", Succeeded, 2), evicted("c", 3)], 1, &["c"]).await;
}

// behaviour: PGC-7
#[tokio::test(start_paused = true)]
async fn only_failed_pods_count_as_evicted() {
    let reason_alone = PodRecord { is_evicted: true, ..aged("c", Succeeded, 3) };
    row([aged("a", Failed, 1), reason_alone], 1, &["a"]).await;
}

// behaviour: PGC-8
#[tokio::test(start_paused = true)]
async fn pods_of_the_same_second_are_ordered_by_name() {
    let pods = [aged("default/b", Failed, 1), aged("z/a", Failed, 1), aged("a/c", Failed, 1)];
    let mut harness = Harness::new(threshold(1));
    for pod in pods {
        harness.cluster.create_pod(pod);
    }
    harness.cycle().await;
    assert_eq!(harness.cluster.calls_of(ApiCall::RemovePod), ["z/a", "default/b"]);
}

// behaviour: PGC-9
#[tokio::test(start_paused = true)]
async fn pod_without_a_phase_counts_as_terminated_and_is_marked_first() {
    let harness = row([aged("a", PodPhase::Other, 1), aged("b", Failed, 2)], 1, &["a"]).await;
    assert_eq!(harness.cluster.calls_of(ApiCall::FailPod), ["default/a"]);
    assert_eq!(harness.cluster.removed()[0].disruption, None);
}

// behaviour: PGC-10
#[tokio::test(start_paused = true)]
async fn default_threshold_keeps_12500_of_12600_pods() {
    let mut harness = Harness::new(settings());
    for number in 0..12_600 {
        harness.cluster.create_pod(aged(&format!("p{number:05}"), Succeeded, number + 1));
    }
    harness.cycle().await;
    assert_eq!(harness.left().len(), 12_500);
    assert_eq!(harness.tried("terminated"), (100, 0));
    assert_eq!(harness.left()[0], "p00100");
    harness.cycle().await;
    assert_eq!(harness.left().len(), 12_500, "and no more");
}

// behaviour: PGC-11, PGC-57
#[tokio::test(start_paused = true)]
async fn pod_with_a_finalizer_still_counts_and_is_deleted_once() {
    let mut harness = Harness::new(threshold(1));
    for (name, created) in [("a", 1), ("b", 2), ("c", 3)] {
        harness.cluster.create_pod(aged(name, Failed, created));
    }
    harness.cluster.hold_pod("a", true);
    for _ in 0..3 {
        harness.cycle().await;
    }
    assert_eq!(harness.cluster.calls_of(ApiCall::RemovePod), ["default/a", "default/b"]);
    assert_eq!(harness.left(), ["a", "c"]);
    let mut events = Vec::new();
    while let Ok(event) = harness.events.try_recv() {
        events.push((event.about.name, event.message.ends_with("; finalizers still hold it")));
    }
    events.sort();
    assert_eq!(events, [("a".to_owned(), true), ("b".to_owned(), false)]);
    harness.cluster.hold_pod("a", false);
    harness.cycle().await;
    assert_eq!(harness.left(), ["c"]);
    assert_eq!(harness.tried("terminated"), (2, 0));
}

// behaviour: PGC-12
#[tokio::test(start_paused = true)]
async fn terminated_pod_of_a_gone_node_is_deleted_once() {
    let mut harness = Harness::new(threshold(1));
    harness.cluster.put_node(node("n"));
    for (name, created) in [("a", 1), ("b", 2)] {
        let pod = PodRecord { node: "gone".to_owned(), ..aged(name, Failed, created) };
        harness.cluster.create_pod(pod);
    }
    harness.cycles(std::time::Duration::from_mins(1)).await;
    assert_eq!(harness.cluster.calls_of(ApiCall::RemovePod), ["default/a", "default/b"]);
    assert_eq!((harness.tried("terminated"), harness.tried("orphaned")), ((1, 0), (1, 0)));
}
