use std::time::Duration;

use model::cluster::{Deletion, PodPhase, PodRecord};
use prometheus::proto::MetricType;
use testkit::cluster::{ApiCall, CallFault, Feed, node};

use crate::world::{World, on_node, settings, threshold};
use PodPhase::{Failed, Running, Succeeded};

const SECOND: Duration = Duration::from_secs(1);

/// A world with a pod on a node that exists.
async fn bound() -> World {
    let mut world = World::new(settings());
    world.cluster.put_node(node("n"));
    world.cluster.create_pod(on_node("a", Running, "n"));
    world.cycle().await;
    world
}

// behaviour: PGC-20
#[tokio::test(start_paused = true)]
async fn pods_of_existing_nodes_stay_without_api_reads() {
    let mut world = bound().await;
    world.cycles(SECOND * 80).await;
    assert_eq!(world.left(), ["a"]);
    assert_eq!(world.cluster.calls(), []);
}

// behaviour: PGC-21
#[tokio::test(start_paused = true)]
async fn node_missing_only_in_the_cache_is_read_and_its_pods_stay() {
    let mut world = World::new(settings());
    world.settle().await;
    world.cluster.freeze(Feed::Nodes, true);
    world.cluster.put_node(node("n"));
    world.cluster.create_pod(on_node("a", Running, "n"));
    world.cycles(SECOND * 40).await;
    assert_eq!(world.cluster.asked(ApiCall::Node), ["n"]);
    world.cycles(SECOND * 80).await;
    assert_eq!(world.left(), ["a"]);
    assert_eq!(world.cluster.asked(ApiCall::RemovePod), [""; 0]);
}

// behaviour: PGC-22
#[tokio::test(start_paused = true)]
async fn pods_of_a_gone_node_are_marked_and_deleted_after_the_quarantine() {
    let mut world = World::new(settings());
    for (name, phase) in [("f", Failed), ("s", Succeeded), ("r", Running)] {
        world.cluster.create_pod(on_node(name, phase, "gone"));
    }
    world.cycles(SECOND * 40).await;
    assert_eq!(world.left(), [""; 0]);
    assert_eq!(world.cluster.asked(ApiCall::FailPod), ["default/r"]);
    assert_eq!(world.cluster.asked(ApiCall::Node), ["gone"], "once for all its pods");
    for removed in world.cluster.removed() {
        let expected = (removed.record.name == "r").then_some("DeletionByPodGC");
        assert_eq!(removed.disruption.map(|disruption| disruption.reason), expected);
        assert_eq!(removed.verdict.rule, "node-gone");
    }
    assert_eq!(world.tried("orphaned"), (3, 0));
}

// behaviour: PGC-23
#[tokio::test(start_paused = true)]
async fn no_pod_is_deleted_during_the_quarantine() {
    let mut world = bound().await;
    world.cluster.drop_node("n");
    world.cycles(SECOND * 20).await;
    assert_eq!(world.left(), ["a"]);
    assert_eq!(world.cluster.calls(), []);
    tokio::time::sleep(SECOND * 19).await;
    world.cycle().await;
    assert_eq!(world.cluster.calls(), [], "39 seconds");
    tokio::time::sleep(SECOND).await;
    world.cycle().await;
    assert_eq!(world.left(), [""; 0]);
}

// behaviour: PGC-24
#[tokio::test(start_paused = true)]
async fn node_that_comes_back_during_the_quarantine_keeps_its_pods() {
    for received in [true, false] {
        let mut world = bound().await;
        world.cluster.drop_node("n");
        world.cycles(SECOND * 20).await;
        world.cluster.freeze(Feed::Nodes, !received);
        world.cluster.put_node(node("n"));
        tokio::time::sleep(SECOND * 20).await;
        world.cycles(SECOND * 80).await;
        assert_eq!(world.left(), ["a"], "received: {received}");
        assert_eq!(world.cluster.asked(ApiCall::Node).is_empty(), received);
    }
}

// behaviour: PGC-25
#[tokio::test(start_paused = true)]
async fn quarantine_starts_with_the_first_cycle_that_misses_the_node() {
    let mut world = bound().await;
    tokio::time::sleep(SECOND * 1000).await;
    world.cluster.drop_node("n");
    world.cycles(SECOND * 20).await;
    assert_eq!(world.left(), ["a"]);
    world.cycles(SECOND * 40).await;
    assert_eq!(world.left(), [""; 0]);
}

// behaviour: PGC-26
#[tokio::test(start_paused = true)]
async fn new_pods_do_not_restart_the_quarantine() {
    let mut world = World::new(settings());
    for second in 0..5 {
        world.cluster.create_pod(on_node(&format!("p{second}"), Running, "gone"));
        world.cycle().await;
        assert_eq!(world.left().is_empty(), second == 4, "after {second}0 seconds");
        tokio::time::sleep(SECOND * 10).await;
    }
}

// behaviour: PGC-27
#[tokio::test(start_paused = true)]
async fn only_not_found_counts_as_a_gone_node() {
    for trouble in [CallFault::Unreachable, CallFault::Refused(403), CallFault::Refused(500)] {
        let mut world = World::new(settings());
        world.cluster.create_pod(on_node("a", Running, "gone"));
        world.cluster.inject_fault(ApiCall::Node, trouble.clone(), 1);
        world.cycles(SECOND * 60).await;
        assert_eq!(world.left(), ["a"], "{trouble:?}");
        assert_eq!(world.cluster.asked(ApiCall::Node).len(), 1);
        world.cycles(SECOND * 40).await;
        assert_eq!(world.left(), [""; 0], "asked again when its time is over once more");
    }
}

// behaviour: PGC-28
#[tokio::test(start_paused = true)]
async fn undeleted_orphan_is_retried_after_the_next_quarantine() {
    let mut world = World::new(settings());
    world.cluster.create_pod(on_node("a", Running, "gone"));
    world.cluster.inject_fault(ApiCall::RemovePod, CallFault::Refused(500), 1);
    world.cycles(SECOND * 60).await;
    assert_eq!((world.left().len(), world.tried("orphaned")), (1, (1, 1)));
    world.cycles(SECOND * 40).await;
    assert_eq!((world.left().len(), world.tried("orphaned")), (0, (2, 1)));
}

// behaviour: PGC-29
#[tokio::test(start_paused = true)]
async fn node_that_comes_back_during_deletions_keeps_remaining_pods() {
    let mut world = World::new(settings());
    for number in 0..40 {
        world.cluster.create_pod(on_node(&format!("p{number:02}"), Succeeded, "n"));
    }
    world.cluster.inject_fault(ApiCall::RemovePod, CallFault::Late(SECOND), 40);
    world.cycles(SECOND * 20).await;
    tokio::time::sleep(SECOND * 20).await;
    let cluster = world.cluster.clone();
    let comes_back = async {
        tokio::time::sleep(SECOND / 2).await;
        cluster.put_node(node("n"));
    };
    tokio::join!(world.cycle(), comes_back);
    assert_eq!(world.left().len(), 24, "only what was under way");
}

// behaviour: PGC-30
#[tokio::test(start_paused = true)]
async fn force_deleted_pod_is_still_marked() {
    let mut world = World::new(threshold(0));
    let pod = on_node("a", Running, "gone");
    world.cluster.create_pod(PodRecord { deletion: Deletion::Forced, ..pod });
    world.cluster.hold_pod("a", true);
    world.cycles(SECOND * 200).await;
    assert_eq!(world.cluster.pod("a").unwrap().phase, Failed, "the finalizer waits for its end");
    assert_eq!(world.cluster.disruption("a").unwrap().reason, "DeletionByPodGC");
    assert_eq!(world.cluster.asked(ApiCall::FailPod).len(), 1);
}

// behaviour: PGC-31
#[tokio::test(start_paused = true)]
async fn stop_during_node_reads_deletes_nothing() {
    let mut world = World::new(settings());
    world.cluster.create_pod(on_node("a", Running, "gone"));
    world.cluster.create_pod(on_node("b", Running, "gone-too"));
    world.cycles(SECOND * 20).await;
    tokio::time::sleep(SECOND * 20).await;
    world.cluster.inject_fault(ApiCall::Node, CallFault::Late(SECOND), 1);
    let stop = world.stop.clone();
    let stops = async {
        tokio::time::sleep(SECOND / 2).await;
        stop.cancel();
    };
    tokio::join!(world.cycle(), stops);
    assert_eq!(world.left(), ["a", "b"]);
}

// behaviour: PGC-33
#[tokio::test(start_paused = true)]
async fn missing_node_queue_metrics_match_upstream() {
    let mut world = World::new(settings());
    for name in ["a", "b"] {
        world.cluster.create_pod(on_node(name, Running, "gone"));
    }
    world.cluster.inject_fault(ApiCall::Node, CallFault::Late(Duration::from_secs(3)), 1);
    let registry = world.registry.clone();
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
    tokio::join!(world.cycles(Duration::from_secs(40)), in_the_middle);
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
