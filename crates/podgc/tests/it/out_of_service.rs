use std::time::Duration;

use model::cluster::{Deletion, NodeRecord, PodPhase, PodRecord};
use podgc::task::PodGcSettings;
use testkit::cluster::{Ask, Feed, Trouble, node};

use crate::world::{World, on_node, settings};
use PodPhase::{Failed, Pending, Running, Succeeded, Unknown};

fn out(name: &str) -> NodeRecord {
    NodeRecord { is_ready: false, is_out_of_service: true, ..node(name) }
}

fn terminating(name: &str, phase: PodPhase, node: &str) -> PodRecord {
    PodRecord { deletion: Deletion::Graceful, ..on_node(name, phase, node) }
}

async fn world(node: NodeRecord, pods: impl IntoIterator<Item = PodRecord>) -> World {
    let mut world = World::new(settings());
    world.cluster.put_node(node);
    for pod in pods {
        world.cluster.create_pod(pod);
    }
    world.cycle().await;
    world
}

// behaviour: PGC-13
#[tokio::test(start_paused = true)]
async fn a_node_that_is_only_not_ready_keeps_its_terminating_pods() {
    let node = NodeRecord { is_ready: false, ..node("n") };
    assert_eq!(world(node, [terminating("a", Running, "n")]).await.left(), ["a"]);
}

// behaviour: PGC-14
#[tokio::test(start_paused = true)]
async fn terminating_pods_of_a_node_out_of_service_go_and_are_marked_unless_they_ended() {
    let pods = [
        terminating("r", Running, "n"),
        terminating("p", Pending, "n"),
        terminating("s", Succeeded, "n"),
        terminating("f", Failed, "n"),
    ];
    let world = world(out("n"), pods).await;
    assert_eq!(world.left(), [""; 0]);
    let mut marked = world.cluster.asked(Ask::FailPod);
    marked.sort();
    assert_eq!(marked, ["default/p", "default/r"]);
    assert!(world.cluster.removed().iter().all(|removed| removed.disruption.is_none()));
    assert_eq!(world.tried("out-of-service"), (4, 0));
    assert_eq!(world.cluster.asked(Ask::Node), ["n"], "once for all its pods");
}

// behaviour: PGC-15
#[tokio::test(start_paused = true)]
async fn a_node_that_is_ready_keeps_its_terminating_pods_whatever_its_taints() {
    let node = NodeRecord { is_ready: true, ..out("n") };
    assert_eq!(world(node, [terminating("a", Running, "n")]).await.left(), ["a"]);
}

// behaviour: PGC-16
#[tokio::test(start_paused = true)]
async fn pods_that_nobody_deleted_stay_on_a_node_out_of_service() {
    let pods = [
        on_node("p", Pending, "n"),
        on_node("r", Running, "n"),
        on_node("u", Unknown, "n"),
        on_node("f", Failed, "n"),
    ];
    let world = world(out("n"), pods).await;
    assert_eq!(world.left().len(), 4);
    assert_eq!(world.cluster.calls(), [], "and the API server is not called");
}

// behaviour: PGC-17
#[tokio::test(start_paused = true)]
async fn a_node_that_came_back_unheard_keeps_its_pods() {
    let mut world = World::new(settings());
    world.cluster.put_node(out("n"));
    world.settle().await;
    world.cluster.freeze(Feed::Nodes, true);
    world.cluster.put_node(node("n"));
    world.cluster.create_pod(terminating("a", Running, "n"));
    world.cycle().await;
    assert_eq!(world.left(), ["a"]);
    assert_eq!(world.cluster.asked(Ask::Node), ["n"]);
}

// behaviour: PGC-45
#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_in_the_middle_keeps_the_rest_of_its_pods() {
    let tainted = NodeRecord { is_out_of_service: true, ..node("n") };
    for back in [tainted, node("n")] {
        let mut world = World::new(PodGcSettings { concurrency: 1, ..settings() });
        world.cluster.put_node(out("n"));
        for name in ["a", "b", "c"] {
            world.cluster.create_pod(terminating(name, Failed, "n"));
        }
        world.cluster.trouble(Ask::RemovePod, Trouble::Late(Duration::from_secs(1)), 3);
        let cluster = world.cluster.clone();
        let comes_back = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            cluster.put_node(back);
        };
        tokio::join!(world.cycle(), comes_back);
        assert_eq!(world.left(), ["b", "c"], "the first was under way");
    }
}

// behaviour: PGC-18
#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_asked_about_keeps_its_pods_until_it_can() {
    let mut world = World::new(settings());
    world.cluster.put_node(out("n"));
    world.cluster.create_pod(terminating("a", Running, "n"));
    world.cluster.trouble(Ask::Node, Trouble::Unreachable, 1);
    world.cycle().await;
    assert_eq!(world.left(), ["a"]);
    world.cycle().await;
    assert_eq!(world.left(), [""; 0]);
}

// behaviour: PGC-19
#[tokio::test(start_paused = true)]
async fn a_terminating_pod_of_a_healthy_or_unknown_node_is_left_to_others() {
    let pods = [terminating("a", Running, "n"), terminating("b", Running, "gone")];
    let world = world(node("n"), pods).await;
    assert_eq!(world.left(), ["a", "b"]);
}
