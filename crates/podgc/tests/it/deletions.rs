use std::time::Duration;

use model::cluster::{Deletion, PodPhase, PodRecord};
use podgc::plan::Order;
use testkit::cluster::{ApiCall, CallFault, Feed, MemoryCluster, pod};

use crate::harness::{Harness, aged, on_node, settings, threshold};

fn unscheduled(name: &str) -> PodRecord {
    PodRecord { deletion: Deletion::Graceful, ..pod(name) }
}

// behaviour: PGC-70
#[tokio::test(start_paused = true)]
async fn refused_mark_is_an_error_and_prevents_the_deletion() {
    let mut harness = Harness::new(settings());
    harness.cluster.create_pod(unscheduled("a"));
    harness.cluster.inject_fault(ApiCall::FailPod, CallFault::Refused(409), 1);
    harness.cycle().await;
    assert_eq!(harness.cluster.calls_of(ApiCall::RemovePod), [""; 0]);
    assert_eq!(harness.tried("unscheduled"), (1, 1));
    harness.cycle().await;
    assert_eq!((harness.left().len(), harness.tried("unscheduled")), (0, (2, 1)));
}

// behaviour: PGC-71
#[tokio::test(start_paused = true)]
async fn missing_pod_is_an_error_and_others_are_deleted() {
    let mut harness = Harness::new(threshold(1));
    for (name, created) in [("a", 1), ("b", 2), ("c", 3)] {
        harness.cluster.create_pod(aged(name, PodPhase::Failed, created));
    }
    harness.cluster.inject_fault(ApiCall::RemovePod, CallFault::Refused(404), 1);
    harness.cycle().await;
    assert_eq!(harness.tried("terminated"), (2, 1));
    assert_eq!(harness.left(), ["a", "c"]);
}

// behaviour: PGC-72
#[tokio::test(start_paused = true)]
async fn recreated_pod_of_the_same_name_is_not_deleted() {
    for phase in [PodPhase::Failed, PodPhase::Running] {
        let mut harness = Harness::new(threshold(0));
        let terminating = PodRecord { phase, ..unscheduled("a") };
        harness.cluster.create_pod(terminating);
        harness.settle().await;
        harness.cluster.freeze(Feed::Pods, true);
        let uid = harness.cluster.create_pod(pod("a"));
        harness.cycle().await;
        assert_eq!(harness.cluster.pod("a").unwrap().uid, uid);
        assert_eq!(
            harness.cluster.pod("a").unwrap().phase,
            PodPhase::Running,
            "it is not marked either"
        );
        assert_eq!(harness.tried("unscheduled"), (1, 1));
        harness.cluster.freeze(Feed::Pods, false);
        harness.cycle().await;
        assert_eq!(harness.left(), ["a"]);
    }
}

// behaviour: PGC-73
#[tokio::test(start_paused = true)]
async fn pod_changed_on_the_server_is_not_deleted_before_its_event() {
    let mut harness = Harness::new(threshold(1));
    harness.cluster.create_pod(aged("a", PodPhase::Failed, 1));
    harness.cluster.create_pod(aged("b", PodPhase::Failed, 2));
    harness.settle().await;
    harness.cluster.freeze(Feed::Pods, true);
    harness.cluster.update_pod("a", |pod| pod.generation += 1);
    harness.cycle().await;
    assert_eq!((harness.left().len(), harness.tried("terminated")), (2, (1, 1)));
    harness.cluster.freeze(Feed::Pods, false);
    harness.cycle().await;
    assert_eq!(harness.left(), ["b"]);
}

// behaviour: PGC-73
#[tokio::test(start_paused = true)]
async fn pod_to_be_marked_is_not_deleted_before_its_event() {
    let mut harness = Harness::new(settings());
    harness.cluster.create_pod(unscheduled("a"));
    harness.settle().await;
    harness.cluster.freeze(Feed::Pods, true);
    // The pod was bound to a node, and the cache does not have that change.
    harness.cluster.update_pod("a", |pod| "n1".clone_into(&mut pod.node));
    harness.cycle().await;
    assert_eq!(harness.tried("unscheduled"), (1, 1));
    let pod = harness.cluster.pod("a").unwrap();
    assert_eq!(pod.phase, PodPhase::Running, "it is not marked either");
    harness.cluster.freeze(Feed::Pods, false);
    harness.cycle().await;
    assert_eq!((harness.left().len(), harness.tried("unscheduled")), (1, (1, 1)));
}

// behaviour: PGC-75
#[tokio::test(start_paused = true)]
async fn marked_pod_is_not_marked_again_after_throttling() {
    let mut harness = Harness::new(settings());
    harness.cluster.create_pod(unscheduled("a"));
    harness.settle().await;
    harness.cluster.freeze(Feed::Pods, true);
    harness.cluster.inject_fault(
        ApiCall::RemovePod,
        CallFault::Throttled(Some(Duration::from_secs(1))),
        2,
    );
    harness.cycle().await;
    assert_eq!(harness.cluster.calls_of(ApiCall::FailPod).len(), 1);
    assert_eq!((harness.left().len(), harness.tried("unscheduled")), (0, (1, 0)));
}

// behaviour: PGC-74
#[tokio::test(start_paused = true)]
async fn deleted_pod_is_not_deleted_again_before_its_event() {
    let mut harness = Harness::new(threshold(1));
    harness.cluster.create_pod(aged("a", PodPhase::Failed, 1));
    harness.cluster.create_pod(aged("b", PodPhase::Failed, 2));
    harness.settle().await;
    harness.cluster.freeze(Feed::Pods, true);
    for _ in 0..3 {
        harness.cycle().await;
    }
    assert_eq!(harness.cluster.calls_of(ApiCall::RemovePod), ["default/a"]);
    assert_eq!(harness.left(), ["b"]);
}

// behaviour: PGC-75
#[tokio::test(start_paused = true)]
async fn throttling_causes_a_pause_and_fewer_concurrent_deletions() {
    let mut harness = Harness::new(threshold(1));
    for number in 0..101 {
        harness.cluster.create_pod(aged(&format!("p{number:03}"), PodPhase::Failed, number + 1));
    }
    let pause = Duration::from_secs(7);
    harness.cluster.inject_fault(ApiCall::RemovePod, CallFault::Throttled(Some(pause)), 1);
    let begun = tokio::time::Instant::now();
    harness.cycle().await;
    assert!(begun.elapsed() >= pause);
    assert_eq!(harness.left(), ["p100"]);
    assert_eq!(harness.tried("terminated"), (100, 0), "a retry is not counted as another attempt");
}

// behaviour: PGC-81
#[tokio::test(start_paused = true)]
async fn server_errors_lower_concurrent_deletions() {
    for trouble in [CallFault::Refused(500), CallFault::Unreachable] {
        let mut harness = Harness::new(threshold(1));
        for number in 0..101 {
            harness.cluster.create_pod(aged(
                &format!("p{number:03}"),
                PodPhase::Failed,
                number + 1,
            ));
        }
        harness.cluster.inject_fault(ApiCall::RemovePod, trouble.clone(), 1000);
        harness.cycle().await;
        assert_eq!(harness.tried("terminated"), (100, 100), "{trouble:?}");
        let at_a_time = harness.value("ferrolet_pod_gc_concurrency");
        assert_eq!(at_a_time, 8, "all at once: {trouble:?}");
    }
}

// behaviour: PGC-76
#[tokio::test(start_paused = true)]
async fn permanent_throttling_does_not_block_a_cycle() {
    let mut harness = Harness::new(settings());
    harness.cluster.create_pod(unscheduled("a"));
    harness.cluster.inject_fault(ApiCall::FailPod, CallFault::Throttled(None), 1000);
    harness.cycle().await;
    assert_eq!(harness.cluster.calls_of(ApiCall::FailPod).len(), 10);
    assert_eq!(harness.tried("unscheduled"), (1, 1));
}

// behaviour: PGC-77
#[tokio::test(start_paused = true)]
async fn concurrent_deletions_are_limited() {
    let mut harness = Harness::new(podgc::task::PodGcSettings { concurrency: 4, ..threshold(1) });
    for number in 0..41 {
        harness.cluster.create_pod(aged(&format!("p{number:03}"), PodPhase::Failed, number + 1));
    }
    harness.cluster.inject_fault(ApiCall::RemovePod, CallFault::Late(Duration::from_secs(1)), 100);
    let begun = tokio::time::Instant::now();
    harness.cycle().await;
    assert_eq!(begun.elapsed(), Duration::from_secs(10), "four at a time");
}

// behaviour: PGC-78
#[tokio::test(start_paused = true)]
async fn stop_ends_a_pass_and_another_process_continues() {
    let cluster = MemoryCluster::default();
    for number in 0..101 {
        cluster.create_pod(aged(&format!("p{number:03}"), PodPhase::Failed, number + 1));
    }
    let mut first = Harness::on(cluster.clone(), threshold(1), Order::Creation);
    cluster.inject_fault(ApiCall::RemovePod, CallFault::Late(Duration::from_secs(1)), 32);
    let stop = first.stop.clone();
    let stops = async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        stop.cancel();
    };
    tokio::join!(first.cycle(), stops);
    assert_eq!(cluster.pods().len(), 85);
    let mut second = Harness::on(cluster.clone(), threshold(1), Order::Creation);
    second.cycle().await;
    assert_eq!(cluster.pods(), ["default/p100"]);
}

// behaviour: PGC-79
#[tokio::test(start_paused = true)]
async fn lost_response_is_an_error_and_causes_no_second_deletion() {
    let mut harness = Harness::new(settings());
    harness.cluster.create_pod(unscheduled("a"));
    harness.cluster.inject_fault(ApiCall::RemovePod, CallFault::AnswerLost, 1);
    harness.cycle().await;
    assert_eq!(harness.tried("unscheduled"), (1, 1));
    harness.cycle().await;
    assert_eq!(harness.cluster.removed().len(), 1);
    assert_eq!(harness.tried("unscheduled"), (1, 1));
}

// behaviour: PGC-80
#[tokio::test(start_paused = true)]
async fn stop_before_the_first_sync_runs_no_cycle() {
    let harness = Harness::new(settings());
    harness.cluster.freeze(Feed::Nodes, true);
    harness.cluster.create_pod(unscheduled("a"));
    let stop = harness.stop.clone();
    let stops = async {
        tokio::time::sleep(Duration::from_mins(5)).await;
        stop.cancel();
    };
    tokio::join!(harness.gc.run(harness.stop), stops);
    assert_eq!(harness.cluster.calls(), []);
    assert_eq!(harness.cluster.pods(), ["default/a"]);
}

// behaviour: PGC-80
#[tokio::test(start_paused = true)]
async fn next_cycle_starts_twenty_seconds_after_the_last_end() {
    let harness = Harness::new(settings());
    harness.cluster.create_pod(on_node("a", PodPhase::Running, "gone"));
    harness.settle().await;
    let (cluster, stop) = (harness.cluster.clone(), harness.stop.clone());
    let begun = tokio::time::Instant::now();
    harness.cluster.inject_fault(ApiCall::Node, CallFault::Late(Duration::from_secs(3)), 1);
    let watch = async {
        while !cluster.pods().is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let first = begun.elapsed();
        cluster.create_pod(unscheduled("b"));
        while !cluster.pods().is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        stop.cancel();
        (first.as_secs(), begun.elapsed().as_secs())
    };
    let ((), seconds) = tokio::join!(harness.gc.run(harness.stop), watch);
    assert_eq!(seconds, (43, 63), "at once, after 20 and 40 seconds, which takes 3, and 20 later");
}

#[tokio::test(start_paused = true)]
async fn check_period_and_quarantine_last_as_long_as_configured() {
    let (period, quarantine) = (Duration::from_secs(1), Duration::from_secs(3));
    let harness = Harness::new(podgc::task::PodGcSettings { period, quarantine, ..settings() });
    harness.cluster.create_pod(on_node("a", PodPhase::Running, "gone"));
    harness.settle().await;
    let (cluster, stop) = (harness.cluster.clone(), harness.stop.clone());
    let begun = tokio::time::Instant::now();
    let watch = async {
        while !cluster.pods().is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let orphan = begun.elapsed();
        cluster.create_pod(unscheduled("b"));
        while !cluster.pods().is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        stop.cancel();
        (orphan.as_secs(), begun.elapsed().as_secs())
    };
    let ((), seconds) = tokio::join!(harness.gc.run(harness.stop), watch);
    assert_eq!(seconds, (3, 4), "after the quarantine, and a period later");
}
