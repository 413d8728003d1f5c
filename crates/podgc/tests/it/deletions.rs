use std::time::Duration;

use model::cluster::{Deletion, PodPhase, PodRecord};
use podgc::plan::Order;
use testkit::cluster::{ApiCall, CallFault, Feed, MemoryCluster, pod};

use crate::world::{World, aged, on_node, settings, threshold};

fn unscheduled(name: &str) -> PodRecord {
    PodRecord { deletion: Deletion::Graceful, ..pod(name) }
}

// behaviour: PGC-70
#[tokio::test(start_paused = true)]
async fn refused_mark_is_an_error_and_prevents_the_deletion() {
    let mut world = World::new(settings());
    world.cluster.create_pod(unscheduled("a"));
    world.cluster.inject_fault(ApiCall::FailPod, CallFault::Refused(409), 1);
    world.cycle().await;
    assert_eq!(world.cluster.asked(ApiCall::RemovePod), [""; 0]);
    assert_eq!(world.tried("unscheduled"), (1, 1));
    world.cycle().await;
    assert_eq!((world.left().len(), world.tried("unscheduled")), (0, (2, 1)));
}

// behaviour: PGC-71
#[tokio::test(start_paused = true)]
async fn missing_pod_is_an_error_and_others_are_deleted() {
    let mut world = World::new(threshold(1));
    for (name, created) in [("a", 1), ("b", 2), ("c", 3)] {
        world.cluster.create_pod(aged(name, PodPhase::Failed, created));
    }
    world.cluster.inject_fault(ApiCall::RemovePod, CallFault::Refused(404), 1);
    world.cycle().await;
    assert_eq!(world.tried("terminated"), (2, 1));
    assert_eq!(world.left(), ["a", "c"]);
}

// behaviour: PGC-72
#[tokio::test(start_paused = true)]
async fn recreated_pod_of_the_same_name_is_not_deleted() {
    for phase in [PodPhase::Failed, PodPhase::Running] {
        let mut world = World::new(threshold(0));
        let terminating = PodRecord { phase, ..unscheduled("a") };
        world.cluster.create_pod(terminating);
        world.settle().await;
        world.cluster.freeze(Feed::Pods, true);
        let uid = world.cluster.create_pod(pod("a"));
        world.cycle().await;
        assert_eq!(world.cluster.pod("a").unwrap().uid, uid);
        assert_eq!(world.cluster.pod("a").unwrap().phase, PodPhase::Running, "nor marked");
        assert_eq!(world.tried("unscheduled"), (1, 1));
        world.cluster.freeze(Feed::Pods, false);
        world.cycle().await;
        assert_eq!(world.left(), ["a"]);
    }
}

// behaviour: PGC-73
#[tokio::test(start_paused = true)]
async fn pod_changed_on_the_server_is_not_deleted_before_its_event() {
    let mut world = World::new(threshold(1));
    world.cluster.create_pod(aged("a", PodPhase::Failed, 1));
    world.cluster.create_pod(aged("b", PodPhase::Failed, 2));
    world.settle().await;
    world.cluster.freeze(Feed::Pods, true);
    world.cluster.update_pod("a", |pod| pod.generation += 1);
    world.cycle().await;
    assert_eq!((world.left().len(), world.tried("terminated")), (2, (1, 1)));
    world.cluster.freeze(Feed::Pods, false);
    world.cycle().await;
    assert_eq!(world.left(), ["b"]);
}

// behaviour: PGC-73
#[tokio::test(start_paused = true)]
async fn pod_to_be_marked_is_not_deleted_before_its_event() {
    let mut world = World::new(settings());
    world.cluster.create_pod(unscheduled("a"));
    world.settle().await;
    world.cluster.freeze(Feed::Pods, true);
    // It got a node, and the cache does not have that change.
    world.cluster.update_pod("a", |pod| "n1".clone_into(&mut pod.node));
    world.cycle().await;
    assert_eq!(world.tried("unscheduled"), (1, 1));
    let pod = world.cluster.pod("a").unwrap();
    assert_eq!(pod.phase, PodPhase::Running, "nor is it marked");
    world.cluster.freeze(Feed::Pods, false);
    world.cycle().await;
    assert_eq!((world.left().len(), world.tried("unscheduled")), (1, (1, 1)));
}

// behaviour: PGC-75
#[tokio::test(start_paused = true)]
async fn marked_pod_is_not_marked_again_after_throttling() {
    let mut world = World::new(settings());
    world.cluster.create_pod(unscheduled("a"));
    world.settle().await;
    world.cluster.freeze(Feed::Pods, true);
    world.cluster.inject_fault(
        ApiCall::RemovePod,
        CallFault::Throttled(Some(Duration::from_secs(1))),
        2,
    );
    world.cycle().await;
    assert_eq!(world.cluster.asked(ApiCall::FailPod).len(), 1);
    assert_eq!((world.left().len(), world.tried("unscheduled")), (0, (1, 0)));
}

// behaviour: PGC-74
#[tokio::test(start_paused = true)]
async fn deleted_pod_is_not_deleted_again_before_its_event() {
    let mut world = World::new(threshold(1));
    world.cluster.create_pod(aged("a", PodPhase::Failed, 1));
    world.cluster.create_pod(aged("b", PodPhase::Failed, 2));
    world.settle().await;
    world.cluster.freeze(Feed::Pods, true);
    for _ in 0..3 {
        world.cycle().await;
    }
    assert_eq!(world.cluster.asked(ApiCall::RemovePod), ["default/a"]);
    assert_eq!(world.left(), ["b"]);
}

// behaviour: PGC-75
#[tokio::test(start_paused = true)]
async fn throttling_causes_a_pause_and_fewer_concurrent_deletions() {
    let mut world = World::new(threshold(1));
    for number in 0..101 {
        world.cluster.create_pod(aged(&format!("p{number:03}"), PodPhase::Failed, number + 1));
    }
    let pause = Duration::from_secs(7);
    world.cluster.inject_fault(ApiCall::RemovePod, CallFault::Throttled(Some(pause)), 1);
    let begun = tokio::time::Instant::now();
    world.cycle().await;
    assert!(begun.elapsed() >= pause);
    assert_eq!(world.left(), ["p100"]);
    assert_eq!(world.tried("terminated"), (100, 0), "asking again is no other attempt");
}

// behaviour: PGC-81
#[tokio::test(start_paused = true)]
async fn server_errors_lower_concurrent_deletions() {
    for trouble in [CallFault::Refused(500), CallFault::Unreachable] {
        let mut world = World::new(threshold(1));
        for number in 0..101 {
            world.cluster.create_pod(aged(&format!("p{number:03}"), PodPhase::Failed, number + 1));
        }
        world.cluster.inject_fault(ApiCall::RemovePod, trouble.clone(), 1000);
        world.cycle().await;
        assert_eq!(world.tried("terminated"), (100, 100), "{trouble:?}");
        let at_a_time = world.value("ferrolet_pod_gc_concurrency");
        assert_eq!(at_a_time, 8, "all in one moment: {trouble:?}");
    }
}

// behaviour: PGC-76
#[tokio::test(start_paused = true)]
async fn permanent_throttling_does_not_block_a_cycle() {
    let mut world = World::new(settings());
    world.cluster.create_pod(unscheduled("a"));
    world.cluster.inject_fault(ApiCall::FailPod, CallFault::Throttled(None), 1000);
    world.cycle().await;
    assert_eq!(world.cluster.asked(ApiCall::FailPod).len(), 10);
    assert_eq!(world.tried("unscheduled"), (1, 1));
}

// behaviour: PGC-77
#[tokio::test(start_paused = true)]
async fn concurrent_deletions_are_limited() {
    let mut world = World::new(podgc::task::PodGcSettings { concurrency: 4, ..threshold(1) });
    for number in 0..41 {
        world.cluster.create_pod(aged(&format!("p{number:03}"), PodPhase::Failed, number + 1));
    }
    world.cluster.inject_fault(ApiCall::RemovePod, CallFault::Late(Duration::from_secs(1)), 100);
    let begun = tokio::time::Instant::now();
    world.cycle().await;
    assert_eq!(begun.elapsed(), Duration::from_secs(10), "four at a time");
}

// behaviour: PGC-78
#[tokio::test(start_paused = true)]
async fn stop_ends_a_pass_and_another_process_continues() {
    let cluster = MemoryCluster::default();
    for number in 0..101 {
        cluster.create_pod(aged(&format!("p{number:03}"), PodPhase::Failed, number + 1));
    }
    let mut first = World::on(cluster.clone(), threshold(1), Order::Creation);
    cluster.inject_fault(ApiCall::RemovePod, CallFault::Late(Duration::from_secs(1)), 32);
    let stop = first.stop.clone();
    let stops = async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        stop.cancel();
    };
    tokio::join!(first.cycle(), stops);
    assert_eq!(cluster.pods().len(), 85);
    let mut second = World::on(cluster.clone(), threshold(1), Order::Creation);
    second.cycle().await;
    assert_eq!(cluster.pods(), ["default/p100"]);
}

// behaviour: PGC-79
#[tokio::test(start_paused = true)]
async fn lost_answer_is_an_error_and_causes_no_second_deletion() {
    let mut world = World::new(settings());
    world.cluster.create_pod(unscheduled("a"));
    world.cluster.inject_fault(ApiCall::RemovePod, CallFault::AnswerLost, 1);
    world.cycle().await;
    assert_eq!(world.tried("unscheduled"), (1, 1));
    world.cycle().await;
    assert_eq!(world.cluster.removed().len(), 1);
    assert_eq!(world.tried("unscheduled"), (1, 1));
}

// behaviour: PGC-80
#[tokio::test(start_paused = true)]
async fn stop_before_the_first_sync_runs_no_cycle() {
    let world = World::new(settings());
    world.cluster.freeze(Feed::Nodes, true);
    world.cluster.create_pod(unscheduled("a"));
    let stop = world.stop.clone();
    let stops = async {
        tokio::time::sleep(Duration::from_mins(5)).await;
        stop.cancel();
    };
    tokio::join!(world.gc.run(world.stop), stops);
    assert_eq!(world.cluster.calls(), []);
    assert_eq!(world.cluster.pods(), ["default/a"]);
}

// behaviour: PGC-80
#[tokio::test(start_paused = true)]
async fn next_cycle_starts_twenty_seconds_after_the_last_end() {
    let world = World::new(settings());
    world.cluster.create_pod(on_node("a", PodPhase::Running, "gone"));
    world.settle().await;
    let (cluster, stop) = (world.cluster.clone(), world.stop.clone());
    let begun = tokio::time::Instant::now();
    world.cluster.inject_fault(ApiCall::Node, CallFault::Late(Duration::from_secs(3)), 1);
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
    let ((), seconds) = tokio::join!(world.gc.run(world.stop), watch);
    assert_eq!(seconds, (43, 63), "at once, after 20 and 40 seconds, which takes 3, and 20 later");
}

#[tokio::test(start_paused = true)]
async fn check_period_and_quarantine_last_as_long_as_configured() {
    let (period, quarantine) = (Duration::from_secs(1), Duration::from_secs(3));
    let world = World::new(podgc::task::PodGcSettings { period, quarantine, ..settings() });
    world.cluster.create_pod(on_node("a", PodPhase::Running, "gone"));
    world.settle().await;
    let (cluster, stop) = (world.cluster.clone(), world.stop.clone());
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
    let ((), seconds) = tokio::join!(world.gc.run(world.stop), watch);
    assert_eq!(seconds, (3, 4), "when the quarantine is over, and a period later");
}
