use model::cluster::{Deletion, PodPhase, PodRecord};
use testkit::cluster::{ApiCall, node, pod};

use crate::harness::{Harness, on_node, settings};

// behaviour: PGC-40
#[tokio::test(start_paused = true)]
async fn unscheduled_terminating_pods_are_deleted_and_marked_if_they_ran() {
    let mut harness = Harness::new(settings());
    for (name, phase) in
        [("f", PodPhase::Failed), ("s", PodPhase::Succeeded), ("r", PodPhase::Running)]
    {
        let deletion = Deletion::Graceful;
        harness.cluster.create_pod(PodRecord { phase, deletion, ..pod(name) });
    }
    harness.cycle().await;
    assert_eq!(harness.left(), [""; 0]);
    assert_eq!(harness.cluster.calls_of(ApiCall::FailPod), ["default/r"]);
    assert!(harness.cluster.removed().iter().all(|removed| removed.disruption.is_none()));
    assert_eq!(harness.tried("unscheduled"), (3, 0));
}

// behaviour: PGC-41
#[tokio::test(start_paused = true)]
async fn undeleted_unscheduled_pod_stays() {
    let mut harness = Harness::new(settings());
    harness.cluster.create_pod(pod("a"));
    harness.cycle().await;
    assert_eq!(harness.left(), ["a"]);
}

// behaviour: PGC-42
#[tokio::test(start_paused = true)]
async fn scheduled_terminating_pod_is_not_unscheduled_when_its_node_is_gone() {
    let mut harness = Harness::new(settings());
    harness.cluster.put_node(node("n"));
    for node in ["n", "gone"] {
        let bound = on_node(node, PodPhase::Running, node);
        harness.cluster.create_pod(PodRecord { deletion: Deletion::Graceful, ..bound });
    }
    harness.cycle().await;
    assert_eq!(harness.left().len(), 2);
    assert_eq!(harness.tried("unscheduled"), (0, 0));
}
