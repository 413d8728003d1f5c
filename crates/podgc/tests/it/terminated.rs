use model::cluster::{PodPhase, PodRecord};
use testkit::cluster::{Ask, node, pod};

use crate::world::{World, aged, settings, threshold};
use PodPhase::{Failed, Pending, Running, Succeeded, Unknown};

fn evicted(name: &str, created: i64) -> PodRecord {
    PodRecord { is_evicted: true, ..aged(name, Failed, created) }
}

/// Pods, a threshold, and which go in which order.
async fn row(pods: impl IntoIterator<Item = PodRecord>, most: i64, gone: &[&str]) -> World {
    let mut world = World::new(threshold(most));
    for pod in pods {
        world.cluster.create_pod(pod);
    }
    world.cycle().await;
    let mut asked = world.cluster.asked(Ask::RemovePod);
    let mut expected: Vec<String> = gone.iter().map(|name| format!("default/{name}")).collect();
    assert_eq!(asked.first(), expected.first(), "the first to go");
    asked.sort();
    expected.sort();
    assert_eq!(asked, expected);
    world
}

// behaviour: PGC-1
#[tokio::test(start_paused = true)]
async fn the_oldest_beyond_the_threshold_go_and_are_not_marked() {
    let pods = [aged("a", Failed, 1), aged("b", Succeeded, 2), aged("c", Failed, 3)];
    let world = row(pods, 1, &["a", "b"]).await;
    assert_eq!(world.left(), ["c"]);
    assert_eq!(world.cluster.asked(Ask::FailPod), [""; 0]);
    assert_eq!(world.tried("terminated"), (2, 0));
}

// behaviour: PGC-2
#[tokio::test(start_paused = true)]
async fn a_threshold_of_zero_or_less_switches_off_this_pass_alone() {
    for most in [0, -1] {
        let pods = [aged("a", Failed, 1), aged("b", Succeeded, 2)];
        let world = row(pods, most, &[]).await;
        assert_eq!(world.left(), ["a", "b"]);
        let mut world = World::new(threshold(most));
        world.cluster.create_pod(pod("c"));
        world.cluster.terminate_pod("c");
        world.cycle().await;
        assert_eq!(world.left(), [""; 0], "never scheduled");
    }
}

// behaviour: PGC-3
#[tokio::test(start_paused = true)]
async fn pods_that_live_are_not_counted_and_stay() {
    let pods = [aged("a", Running, 1), aged("b", Succeeded, 2), aged("c", Failed, 3)];
    row(pods, 1, &["b"]).await;
    let pods = [aged("a", Pending, 1), aged("b", Unknown, 2), aged("c", Failed, 3)];
    row(pods, 1, &[]).await;
}

// behaviour: PGC-4
#[tokio::test(start_paused = true)]
async fn below_the_threshold_nothing_goes() {
    row([aged("a", Failed, 1), aged("b", Succeeded, 2)], 5, &[]).await;
    row([aged("a", Failed, 1), aged("b", Succeeded, 2)], 2, &[]).await;
}

// behaviour: PGC-5
#[tokio::test(start_paused = true)]
async fn the_evicted_go_first_however_young() {
    let world =
        row([aged("a", Failed, 1), aged("b", Succeeded, 2), evicted("c", 3)], 1, &["c", "a"]);
    assert_eq!(world.await.left(), ["b"]);
}

// behaviour: PGC-6
#[tokio::test(start_paused = true)]
async fn an_evicted_one_goes_before_one_that_succeeded() {
    row([aged("a", Running, 1), aged("b", Succeeded, 2), evicted("c", 3)], 1, &["c"]).await;
}

// behaviour: PGC-7
#[tokio::test(start_paused = true)]
async fn evicted_is_only_who_failed() {
    let reason_alone = PodRecord { is_evicted: true, ..aged("c", Succeeded, 3) };
    row([aged("a", Failed, 1), reason_alone], 1, &["a"]).await;
}

// behaviour: PGC-8
#[tokio::test(start_paused = true)]
async fn pods_of_the_same_second_go_by_name_whatever_their_namespace() {
    let pods = [aged("default/b", Failed, 1), aged("z/a", Failed, 1), aged("a/c", Failed, 1)];
    let mut world = World::new(threshold(1));
    for pod in pods {
        world.cluster.create_pod(pod);
    }
    world.cycle().await;
    assert_eq!(world.cluster.asked(Ask::RemovePod), ["z/a", "default/b"]);
}

// behaviour: PGC-9
#[tokio::test(start_paused = true)]
async fn a_pod_without_a_phase_counts_as_terminated_and_is_marked_first() {
    let world = row([aged("a", PodPhase::Other, 1), aged("b", Failed, 2)], 1, &["a"]).await;
    assert_eq!(world.cluster.asked(Ask::FailPod), ["default/a"]);
    assert_eq!(world.cluster.removed()[0].disruption, None);
}

// behaviour: PGC-10
#[tokio::test(start_paused = true)]
async fn of_12600_pods_the_default_threshold_leaves_12500() {
    let mut world = World::new(settings());
    for number in 0..12_600 {
        world.cluster.create_pod(aged(&format!("p{number:05}"), Succeeded, number + 1));
    }
    world.cycle().await;
    assert_eq!(world.left().len(), 12_500);
    assert_eq!(world.tried("terminated"), (100, 0));
    assert_eq!(world.left()[0], "p00100");
    world.cycle().await;
    assert_eq!(world.left().len(), 12_500, "and no more");
}

// behaviour: PGC-11, PGC-57
#[tokio::test(start_paused = true)]
async fn a_pod_held_by_a_finalizer_keeps_its_place_and_is_deleted_once() {
    let mut world = World::new(threshold(1));
    for (name, created) in [("a", 1), ("b", 2), ("c", 3)] {
        world.cluster.create_pod(aged(name, Failed, created));
    }
    world.cluster.hold_pod("a", true);
    for _ in 0..3 {
        world.cycle().await;
    }
    assert_eq!(world.cluster.asked(Ask::RemovePod), ["default/a", "default/b"]);
    assert_eq!(world.left(), ["a", "c"]);
    let mut events = Vec::new();
    while let Ok(event) = world.events.try_recv() {
        events.push((event.about.name, event.message.ends_with("; finalizers still hold it")));
    }
    events.sort();
    assert_eq!(events, [("a".to_owned(), true), ("b".to_owned(), false)]);
    world.cluster.hold_pod("a", false);
    world.cycle().await;
    assert_eq!(world.left(), ["c"]);
    assert_eq!(world.tried("terminated"), (2, 0));
}

// behaviour: PGC-12
#[tokio::test(start_paused = true)]
async fn a_terminated_pod_of_a_gone_node_is_deleted_once() {
    let mut world = World::new(threshold(1));
    world.cluster.put_node(node("n"));
    for (name, created) in [("a", 1), ("b", 2)] {
        let pod = PodRecord { node: "gone".to_owned(), ..aged(name, Failed, created) };
        world.cluster.create_pod(pod);
    }
    world.cycles(std::time::Duration::from_mins(1)).await;
    assert_eq!(world.cluster.asked(Ask::RemovePod), ["default/a", "default/b"]);
    assert_eq!((world.tried("terminated"), world.tried("orphaned")), ((1, 0), (1, 0)));
}
