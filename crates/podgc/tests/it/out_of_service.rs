use std::time::Duration;

use model::cluster::{Deletion, NodeRecord, PodPhase, PodRecord};
use podgc::task::PodGcSettings;
use testkit::cluster::{ApiCall, CallFault, Feed, node};

use crate::harness::{Harness, on_node, settings};
use PodPhase::{Failed, Pending, Running, Succeeded, Unknown};

fn out(name: &str) -> NodeRecord {
    NodeRecord { is_ready: false, is_out_of_service: true, ..node(name) }
}

fn terminating(name: &str, phase: PodPhase, node: &str) -> PodRecord {
    PodRecord { deletion: Deletion::Graceful, ..on_node(name, phase, node) }
}

async fn harness(node: NodeRecord, pods: impl IntoIterator<Item = PodRecord>) -> Harness {
    let mut harness = Harness::new(settings());
    harness.cluster.put_node(node);
    for pod in pods {
        harness.cluster.create_pod(pod);
    }
    harness.cycle().await;
    harness
}

// behaviour: PGC-13
#[tokio::test(start_paused = true)]
async fn not_ready_node_keeps_its_terminating_pods() {
    let node = NodeRecord { is_ready: false, ..node("n") };
    assert_eq!(harness(node, [terminating("a", Running, "n")]).await.left(), ["a"]);
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
    let harness = harness(out("n"), pods).await;
    assert_eq!(harness.left(), [""; 0]);
    let mut marked = harness.cluster.calls_of(ApiCall::FailPod);
    marked.sort();
    assert_eq!(marked, ["default/p", "default/r"]);
    assert!(harness.cluster.removed().iter().all(|removed| removed.disruption.is_none()));
    assert_eq!(harness.tried("out-of-service"), (4, 0));
    assert_eq!(harness.cluster.calls_of(ApiCall::Node), ["n"], "one read for all of its pods");
}

// behaviour: PGC-15
#[tokio::test(start_paused = true)]
async fn ready_node_keeps_its_terminating_pods_for_any_taint() {
    let node = NodeRecord { is_ready: true, ..out("n") };
    assert_eq!(harness(node, [terminating("a", Running, "n")]).await.left(), ["a"]);
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
    let harness = harness(out("n"), pods).await;
    assert_eq!(harness.left().len(), 4);
    assert_eq!(harness.cluster.calls(), [], "and the API server is not called");
}

// behaviour: PGC-17
#[tokio::test(start_paused = true)]
async fn recreated_node_keeps_its_pods() {
    let mut harness = Harness::new(settings());
    harness.cluster.put_node(out("n"));
    harness.settle().await;
    harness.cluster.freeze(Feed::Nodes, true);
    harness.cluster.put_node(node("n"));
    harness.cluster.create_pod(terminating("a", Running, "n"));
    harness.cycle().await;
    assert_eq!(harness.left(), ["a"]);
    assert_eq!(harness.cluster.calls_of(ApiCall::Node), ["n"]);
}

// behaviour: PGC-45
#[tokio::test(start_paused = true)]
async fn out_of_service_node_that_recovers_keeps_remaining_pods() {
    let tainted = NodeRecord { is_out_of_service: true, ..node("n") };
    for back in [tainted, node("n")] {
        let mut harness = Harness::new(PodGcSettings { concurrency: 1, ..settings() });
        harness.cluster.put_node(out("n"));
        for name in ["a", "b", "c"] {
            harness.cluster.create_pod(terminating(name, Failed, "n"));
        }
        harness.cluster.inject_fault(
            ApiCall::RemovePod,
            CallFault::Late(Duration::from_secs(1)),
            3,
        );
        let cluster = harness.cluster.clone();
        let comes_back = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            cluster.put_node(back);
        };
        tokio::join!(harness.cycle(), comes_back);
        assert_eq!(harness.left(), ["b", "c"], "the first was in progress");
    }
}

// behaviour: PGC-18
#[tokio::test(start_paused = true)]
async fn node_that_cannot_be_read_keeps_its_pods() {
    let mut harness = Harness::new(settings());
    harness.cluster.put_node(out("n"));
    harness.cluster.create_pod(terminating("a", Running, "n"));
    harness.cluster.inject_fault(ApiCall::Node, CallFault::Unreachable, 1);
    harness.cycle().await;
    assert_eq!(harness.left(), ["a"]);
    harness.cycle().await;
    assert_eq!(harness.left(), [""; 0]);
}

// behaviour: PGC-19
#[tokio::test(start_paused = true)]
async fn terminating_pod_of_a_healthy_or_unknown_node_stays() {
    let pods = [terminating("a", Running, "n"), terminating("b", Running, "gone")];
    let harness = harness(node("n"), pods).await;
    assert_eq!(harness.left(), ["a", "b"]);
}
