use std::time::Duration;

use model::cluster::{Deletion, NodeRecord, PodPhase, PodRecord};
use podgc::task::PodGcSettings;
use testkit::cluster::{ApiCall, CallFault, Feed, node};

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
async fn not_ready_node_keeps_its_terminating_pods() {
    let node = NodeRecord { is_ready: false, ..node("n") };
    assert_eq!(world(node, [terminating("a", Running, "n")]).await.left(), ["a"]);
}

// behaviour: PGC-14
#[tokio::test(start_paused = true)]
async fn terminating_pods_of_an_out_of_service_node_are_marked_and_deleted() {
    let pods = [
        terminating("r", Running, "n"),
        terminating("p", Pending, "n"),
        terminating("s", Succeeded, "n"),
        terminating("f", Failed, "n"),
    ];
    let world = world(out("n"), pods).await;
    assert_eq!(world.left(), [""; 0]);
    let mut marked = world.cluster.asked(ApiCall::FailPod);
    marked.sort();
    assert_eq!(marked, ["default/p", "default/r"]);
    assert!(world.cluster.removed().iter().all(|removed| removed.disruption.is_none()));
    assert_eq!(world.tried("out-of-service"), (4, 0));
    assert_eq!(world.cluster.asked(ApiCall::Node), ["n"], "once for all its pods");
}

// behaviour: PGC-15
#[tokio::test(start_paused = true)]
async fn ready_node_keeps_its_terminating_pods_for_any_taint() {
    let node = NodeRecord { is_ready: true, ..out("n") };
    assert_eq!(world(node, [terminating("a", Running, "n")]).await.left(), ["a"]);
}

// behaviour: PGC-16
#[tokio::test(start_paused = true)]
async fn undeleted_pods_stay_on_an_out_of_service_node() {
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
async fn node_that_came_back_on_the_server_keeps_its_pods() {
    let mut world = World::new(settings());
    world.cluster.put_node(out("n"));
    world.settle().await;
    world.cluster.freeze(Feed::Nodes, true);
    world.cluster.put_node(node("n"));
    world.cluster.create_pod(terminating("a", Running, "n"));
    world.cycle().await;
    assert_eq!(world.left(), ["a"]);
    assert_eq!(world.cluster.asked(ApiCall::Node), ["n"]);
}

// behaviour: PGC-45
#[tokio::test(start_paused = true)]
async fn out_of_service_node_that_recovers_keeps_remaining_pods() {
    let tainted = NodeRecord { is_out_of_service: true, ..node("n") };
    for back in [tainted, node("n")] {
        let mut world = World::new(PodGcSettings { concurrency: 1, ..settings() });
        world.cluster.put_node(out("n"));
        for name in ["a", "b", "c"] {
            world.cluster.create_pod(terminating(name, Failed, "n"));
        }
        world.cluster.inject_fault(ApiCall::RemovePod, CallFault::Late(Duration::from_secs(1)), 3);
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
async fn node_that_cannot_be_read_keeps_its_pods() {
    let mut world = World::new(settings());
    world.cluster.put_node(out("n"));
    world.cluster.create_pod(terminating("a", Running, "n"));
    world.cluster.inject_fault(ApiCall::Node, CallFault::Unreachable, 1);
    world.cycle().await;
    assert_eq!(world.left(), ["a"]);
    world.cycle().await;
    assert_eq!(world.left(), [""; 0]);
}

// behaviour: PGC-19
#[tokio::test(start_paused = true)]
async fn terminating_pod_of_a_healthy_or_unknown_node_stays() {
    let pods = [terminating("a", Running, "n"), terminating("b", Running, "gone")];
    let world = world(node("n"), pods).await;
    assert_eq!(world.left(), ["a", "b"]);
}
