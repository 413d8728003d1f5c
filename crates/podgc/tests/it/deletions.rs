use std::time::Duration;

use model::cluster::{Deletion, PodPhase, PodRecord};
use podgc::plan::Order;
use testkit::cluster::{Ask, Feed, MemoryCluster, Trouble, pod};

use crate::world::{World, aged, on_node, settings, threshold};

fn unscheduled(name: &str) -> PodRecord {
    PodRecord { deletion: Deletion::Graceful, ..pod(name) }
}

// behaviour: PGC-70
#[tokio::test(start_paused = true)]
async fn a_mark_that_is_refused_is_an_error_and_nothing_is_deleted() {
    let mut world = World::new(settings());
    world.cluster.create_pod(unscheduled("a"));
    world.cluster.trouble(Ask::FailPod, Trouble::Refused(409), 1);
    world.cycle().await;
    assert_eq!(world.cluster.asked(Ask::RemovePod), [""; 0]);
    assert_eq!(world.tried("unscheduled"), (1, 1));
    world.cycle().await;
    assert_eq!((world.left().len(), world.tried("unscheduled")), (0, (2, 1)));
}

// behaviour: PGC-71
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_already_is_an_error_and_the_others_go() {
    let mut world = World::new(threshold(1));
    for (name, created) in [("a", 1), ("b", 2), ("c", 3)] {
        world.cluster.create_pod(aged(name, PodPhase::Failed, created));
    }
    world.cluster.trouble(Ask::RemovePod, Trouble::Refused(404), 1);
    world.cycle().await;
    assert_eq!(world.tried("terminated"), (2, 1));
    assert_eq!(world.left(), ["a", "c"]);
}

// behaviour: PGC-72
#[tokio::test(start_paused = true)]
async fn a_pod_made_again_under_the_same_name_is_never_hit() {
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
async fn a_pod_that_changed_unheard_is_not_deleted_until_it_is_heard_of() {
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
async fn nor_is_one_that_would_be_marked_first() {
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
async fn a_pod_that_was_marked_before_the_server_had_no_time_is_not_marked_again() {
    let mut world = World::new(settings());
    world.cluster.create_pod(unscheduled("a"));
    world.settle().await;
    world.cluster.freeze(Feed::Pods, true);
    world.cluster.trouble(Ask::RemovePod, Trouble::Throttled(Some(Duration::from_secs(1))), 2);
    world.cycle().await;
    assert_eq!(world.cluster.asked(Ask::FailPod).len(), 1);
    assert_eq!((world.left().len(), world.tried("unscheduled")), (0, (1, 0)));
}

// behaviour: PGC-74
#[tokio::test(start_paused = true)]
async fn what_was_deleted_is_not_deleted_again_while_nothing_is_heard_of_it() {
    let mut world = World::new(threshold(1));
    world.cluster.create_pod(aged("a", PodPhase::Failed, 1));
    world.cluster.create_pod(aged("b", PodPhase::Failed, 2));
    world.settle().await;
    world.cluster.freeze(Feed::Pods, true);
    for _ in 0..3 {
        world.cycle().await;
    }
    assert_eq!(world.cluster.asked(Ask::RemovePod), ["default/a"]);
    assert_eq!(world.left(), ["b"]);
}

// behaviour: PGC-75
#[tokio::test(start_paused = true)]
async fn a_server_without_time_is_left_alone_for_a_while_and_then_asked_for_less() {
    let mut world = World::new(threshold(1));
    for number in 0..101 {
        world.cluster.create_pod(aged(&format!("p{number:03}"), PodPhase::Failed, number + 1));
    }
    let pause = Duration::from_secs(7);
    world.cluster.trouble(Ask::RemovePod, Trouble::Throttled(Some(pause)), 1);
    let begun = tokio::time::Instant::now();
    world.cycle().await;
    assert!(begun.elapsed() >= pause);
    assert_eq!(world.left(), ["p100"]);
    assert_eq!(world.tried("terminated"), (100, 0), "asking again is no other attempt");
}

// behaviour: PGC-81
#[tokio::test(start_paused = true)]
async fn a_server_that_fails_is_asked_for_less_at_a_time() {
    for trouble in [Trouble::Refused(500), Trouble::Unreachable] {
        let mut world = World::new(threshold(1));
        for number in 0..101 {
            world.cluster.create_pod(aged(&format!("p{number:03}"), PodPhase::Failed, number + 1));
        }
        world.cluster.trouble(Ask::RemovePod, trouble.clone(), 1000);
        world.cycle().await;
        assert_eq!(world.tried("terminated"), (100, 100), "{trouble:?}");
        let at_a_time = world.value("ferrolet_pod_gc_concurrency");
        assert_eq!(at_a_time, 8, "all in one moment: {trouble:?}");
    }
}

// behaviour: PGC-76
#[tokio::test(start_paused = true)]
async fn a_server_that_never_has_time_does_not_hold_up_a_cycle_for_ever() {
    let mut world = World::new(settings());
    world.cluster.create_pod(unscheduled("a"));
    world.cluster.trouble(Ask::FailPod, Trouble::Throttled(None), 1000);
    world.cycle().await;
    assert_eq!(world.cluster.asked(Ask::FailPod).len(), 10);
    assert_eq!(world.tried("unscheduled"), (1, 1));
}

// behaviour: PGC-77
#[tokio::test(start_paused = true)]
async fn no_more_deletions_are_under_way_than_may_be() {
    let mut world = World::new(podgc::task::PodGcSettings { concurrency: 4, ..threshold(1) });
    for number in 0..41 {
        world.cluster.create_pod(aged(&format!("p{number:03}"), PodPhase::Failed, number + 1));
    }
    world.cluster.trouble(Ask::RemovePod, Trouble::Late(Duration::from_secs(1)), 100);
    let begun = tokio::time::Instant::now();
    world.cycle().await;
    assert_eq!(begun.elapsed(), Duration::from_secs(10), "four at a time");
}

// behaviour: PGC-78
#[tokio::test(start_paused = true)]
async fn a_stop_in_the_middle_of_a_pass_ends_it_and_another_goes_on() {
    let cluster = MemoryCluster::default();
    for number in 0..101 {
        cluster.create_pod(aged(&format!("p{number:03}"), PodPhase::Failed, number + 1));
    }
    let mut first = World::on(cluster.clone(), threshold(1), Order::Creation);
    cluster.trouble(Ask::RemovePod, Trouble::Late(Duration::from_secs(1)), 32);
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
async fn an_answer_that_is_lost_is_an_error_and_nothing_is_deleted_twice() {
    let mut world = World::new(settings());
    world.cluster.create_pod(unscheduled("a"));
    world.cluster.trouble(Ask::RemovePod, Trouble::AnswerLost, 1);
    world.cycle().await;
    assert_eq!(world.tried("unscheduled"), (1, 1));
    world.cycle().await;
    assert_eq!(world.cluster.removed().len(), 1);
    assert_eq!(world.tried("unscheduled"), (1, 1));
}

// behaviour: PGC-80
#[tokio::test(start_paused = true)]
async fn a_stop_before_all_is_known_ends_it_without_a_cycle() {
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
async fn cycles_follow_one_another_twenty_seconds_after_the_last_ended() {
    let world = World::new(settings());
    world.cluster.create_pod(on_node("a", PodPhase::Running, "gone"));
    world.settle().await;
    let (cluster, stop) = (world.cluster.clone(), world.stop.clone());
    let begun = tokio::time::Instant::now();
    world.cluster.trouble(Ask::Node, Trouble::Late(Duration::from_secs(3)), 1);
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
