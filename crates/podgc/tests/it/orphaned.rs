use std::time::Duration;

use model::cluster::{Deletion, PodPhase, PodRecord};
use prometheus::proto::MetricType;
use testkit::cluster::{ApiCall, CallFault, Feed, node};

use crate::harness::{Harness, on_node, settings, threshold};
use PodPhase::{Failed, Running, Succeeded};

const SECOND: Duration = Duration::from_secs(1);

/// A harness with a pod on an existing node.
async fn bound() -> Harness {
    let mut harness = Harness::new(settings());
    harness.cluster.put_node(node("n"));
    harness.cluster.create_pod(on_node("a", Running, "n"));
    harness.cycle().await;
    harness
}

// behaviour: PGC-20
#[tokio::test(start_paused = true)]
async fn pods_of_existing_nodes_stay_without_api_reads() {
    let mut harness = bound().await;
    harness.cycles(SECOND * 80).await;
    assert_eq!(harness.left(), ["a"]);
    assert_eq!(harness.cluster.calls(), []);
}

// behaviour: PGC-21
#[tokio::test(start_paused = true)]
async fn node_missing_only_in_the_cache_is_read_and_its_pods_stay() {
    let mut harness = Harness::new(settings());
    harness.settle().await;
    harness.cluster.freeze(Feed::Nodes, true);
    harness.cluster.put_node(node("n"));
    harness.cluster.create_pod(on_node("a", Running, "n"));
    harness.cycles(SECOND * 40).await;
    assert_eq!(harness.cluster.calls_of(ApiCall::Node), ["n"]);
    harness.cycles(SECOND * 80).await;
    assert_eq!(harness.left(), ["a"]);
    assert_eq!(harness.cluster.calls_of(ApiCall::RemovePod), [""; 0]);
}

// behaviour: PGC-22
#[tokio::test(start_paused = true)]
async fn pods_of_a_gone_node_are_marked_and_deleted_after_the_quarantine() {
    let mut harness = Harness::new(settings());
    for (name, phase) in [("f", Failed), ("s", Succeeded), ("r", Running)] {
        harness.cluster.create_pod(on_node(name, phase, "gone"));
    }
    harness.cycles(SECOND * 40).await;
    assert_eq!(harness.left(), [""; 0]);
    assert_eq!(harness.cluster.calls_of(ApiCall::FailPod), ["default/r"]);
    assert_eq!(harness.cluster.calls_of(ApiCall::Node), ["gone"], "one read for all of its pods");
    for removed in harness.cluster.removed() {
        let expected = (removed.record.name == "r").then_some("DeletionByPodGC");
        assert_eq!(removed.disruption.map(|disruption| disruption.reason), expected);
        assert_eq!(removed.verdict.rule, "node-gone");
    }
    assert_eq!(harness.tried("orphaned"), (3, 0));
}

// behaviour: PGC-23
#[tokio::test(start_paused = true)]
async fn no_pod_is_deleted_during_the_quarantine() {
    let mut harness = bound().await;
    harness.cluster.drop_node("n");
    harness.cycles(SECOND * 20).await;
    assert_eq!(harness.left(), ["a"]);
    assert_eq!(harness.cluster.calls(), []);
    tokio::time::sleep(SECOND * 19).await;
    harness.cycle().await;
    assert_eq!(harness.cluster.calls(), [], "39 seconds");
    tokio::time::sleep(SECOND).await;
    harness.cycle().await;
    assert_eq!(harness.left(), [""; 0]);
}

// behaviour: PGC-24
#[tokio::test(start_paused = true)]
async fn node_that_comes_back_during_the_quarantine_keeps_its_pods() {
    for received in [true, false] {
        let mut harness = bound().await;
        harness.cluster.drop_node("n");
        harness.cycles(SECOND * 20).await;
        harness.cluster.freeze(Feed::Nodes, !received);
        harness.cluster.put_node(node("n"));
        tokio::time::sleep(SECOND * 20).await;
        harness.cycles(SECOND * 80).await;
        assert_eq!(harness.left(), ["a"], "received: {received}");
        assert_eq!(harness.cluster.calls_of(ApiCall::Node).is_empty(), received);
    }
}

// behaviour: PGC-25
#[tokio::test(start_paused = true)]
async fn quarantine_starts_with_the_first_cycle_that_misses_the_node() {
    let mut harness = bound().await;
    tokio::time::sleep(SECOND * 1000).await;
    harness.cluster.drop_node("n");
    harness.cycles(SECOND * 20).await;
    assert_eq!(harness.left(), ["a"]);
    harness.cycles(SECOND * 40).await;
    assert_eq!(harness.left(), [""; 0]);
}

// behaviour: PGC-26
#[tokio::test(start_paused = true)]
async fn new_pods_do_not_restart_the_quarantine() {
    let mut harness = Harness::new(settings());
    for second in 0..5 {
        harness.cluster.create_pod(on_node(&format!("p{second}"), Running, "gone"));
        harness.cycle().await;
        assert_eq!(harness.left().is_empty(), second == 4, "after {second}0 seconds");
        tokio::time::sleep(SECOND * 10).await;
    }
}

// behaviour: PGC-27
#[tokio::test(start_paused = true)]
async fn only_not_found_counts_as_a_gone_node() {
    for trouble in [CallFault::Unreachable, CallFault::Refused(403), CallFault::Refused(500)] {
        let mut harness = Harness::new(settings());
        harness.cluster.create_pod(on_node("a", Running, "gone"));
        harness.cluster.inject_fault(ApiCall::Node, trouble.clone(), 1);
        harness.cycles(SECOND * 60).await;
        assert_eq!(harness.left(), ["a"], "{trouble:?}");
        assert_eq!(harness.cluster.calls_of(ApiCall::Node).len(), 1);
        harness.cycles(SECOND * 40).await;
        assert_eq!(harness.left(), [""; 0], "read again after another quarantine");
    }
}

// behaviour: PGC-28
#[tokio::test(start_paused = true)]
async fn undeleted_orphan_is_retried_after_the_next_quarantine() {
    let mut harness = Harness::new(settings());
    harness.cluster.create_pod(on_node("a", Running, "gone"));
    harness.cluster.inject_fault(ApiCall::RemovePod, CallFault::Refused(500), 1);
    harness.cycles(SECOND * 60).await;
    assert_eq!((harness.left().len(), harness.tried("orphaned")), (1, (1, 1)));
    harness.cycles(SECOND * 40).await;
    assert_eq!((harness.left().len(), harness.tried("orphaned")), (0, (2, 1)));
}

// behaviour: PGC-29
#[tokio::test(start_paused = true)]
async fn node_that_comes_back_during_deletions_keeps_remaining_pods() {
    let mut harness = Harness::new(settings());
    for number in 0..40 {
        harness.cluster.create_pod(on_node(&format!("p{number:02}"), Succeeded, "n"));
    }
    harness.cluster.inject_fault(ApiCall::RemovePod, CallFault::Late(SECOND), 40);
    harness.cycles(SECOND * 20).await;
    tokio::time::sleep(SECOND * 20).await;
    let cluster = harness.cluster.clone();
    let comes_back = async {
        tokio::time::sleep(SECOND / 2).await;
        cluster.put_node(node("n"));
    };
    tokio::join!(harness.cycle(), comes_back);
    assert_eq!(harness.left().len(), 24, "only deletions in progress");
}

// behaviour: PGC-30
#[tokio::test(start_paused = true)]
async fn force_deleted_pod_is_still_marked() {
    let mut harness = Harness::new(threshold(0));
    let pod = on_node("a", Running, "gone");
    harness.cluster.create_pod(PodRecord { deletion: Deletion::Forced, ..pod });
    harness.cluster.hold_pod("a", true);
    harness.cycles(SECOND * 200).await;
    assert_eq!(harness.cluster.pod("a").unwrap().phase, Failed, "the finalizer waits for its end");
    assert_eq!(harness.cluster.disruption("a").unwrap().reason, "DeletionByPodGC");
    assert_eq!(harness.cluster.calls_of(ApiCall::FailPod).len(), 1);
}

// behaviour: PGC-31
#[tokio::test(start_paused = true)]
async fn stop_during_node_reads_deletes_nothing() {
    let mut harness = Harness::new(settings());
    harness.cluster.create_pod(on_node("a", Running, "gone"));
    harness.cluster.create_pod(on_node("b", Running, "gone-too"));
    harness.cycles(SECOND * 20).await;
    tokio::time::sleep(SECOND * 20).await;
    harness.cluster.inject_fault(ApiCall::Node, CallFault::Late(SECOND), 1);
    let stop = harness.stop.clone();
    let stops = async {
        tokio::time::sleep(SECOND / 2).await;
        stop.cancel();
    };
    tokio::join!(harness.cycle(), stops);
    assert_eq!(harness.left(), ["a", "b"]);
}

// behaviour: PGC-33
#[tokio::test(start_paused = true)]
async fn missing_node_queue_metrics_match_upstream() {
    let mut harness = Harness::new(settings());
    for name in ["a", "b"] {
        harness.cluster.create_pod(on_node(name, Running, "gone"));
    }
    harness.cluster.inject_fault(ApiCall::Node, CallFault::Late(Duration::from_secs(3)), 1);
    let registry = harness.registry.clone();
    let value = |metric: &str| {
        let families = registry.gather();
        let family = families.iter().find(|family| family.name() == metric).unwrap();
        let one = &family.get_metric()[0];
        let number = match family.get_field_type() {
            MetricType::GAUGE => one.get_gauge().get_value(),
            MetricType::COUNTER => one.get_counter().get_value(),
            _ => one.get_histogram().get_sample_sum(),
        };
        format!("{metric} {number:.0}")
    };
    let check = |expected: &[&str]| {
        for line in expected {
            assert_eq!(value(line.split(' ').next().unwrap()), *line);
        }
    };
    let in_the_middle = async {
        tokio::time::sleep(Duration::from_secs(42)).await;
        check(&[
            "workqueue_depth 0",
            "workqueue_unfinished_work_seconds 2",
            "workqueue_longest_running_processor_seconds 2",
            "workqueue_work_duration_seconds 0",
        ]);
    };
    tokio::join!(harness.cycles(Duration::from_secs(40)), in_the_middle);
    check(&[
        "workqueue_adds_total 1",
        // Both pods, in each of three cycles.
        "workqueue_retries_total 6",
        "workqueue_depth 0",
        "workqueue_work_duration_seconds 3",
        "workqueue_queue_duration_seconds 0",
        "workqueue_unfinished_work_seconds 0",
        "workqueue_longest_running_processor_seconds 0",
    ]);
}
