use std::time::Duration;

use model::cluster::{PodPhase, PodRecord};
use podgc::plan::{Order, TerminatedPolicy};
use podgc::task::PodGcSettings;
use testkit::cluster::ApiCall;

use crate::harness::{Harness, aged, on_node, settings, threshold};
use PodPhase::{Failed, Running, Succeeded};

/// The start of the virtual time.
const BEGIN: i64 = 1_767_225_600;

fn with(terminated: TerminatedPolicy) -> PodGcSettings {
    PodGcSettings { terminated, ..settings() }
}

// behaviour: PGC-90
#[tokio::test(start_paused = true)]
async fn terminated_pods_are_deleted_after_their_ttl() {
    let ttl = Some(Duration::from_mins(1));
    let mut harness = Harness::new(with(TerminatedPolicy { ttl, ..TerminatedPolicy::default() }));
    for (name, finished) in [("old", Some(BEGIN - 60)), ("young", Some(BEGIN - 59))] {
        harness.cluster.create_pod(PodRecord { finished, ..aged(name, Succeeded, BEGIN - 1000) });
    }
    harness.cluster.create_pod(aged("unknown-end", Failed, BEGIN - 60));
    harness.cluster.create_pod(PodRecord { finished: Some(1), ..aged("runs", Running, 1) });
    harness.cycle().await;
    assert_eq!(harness.left(), ["runs", "young"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    harness.cycle().await;
    assert_eq!(harness.left(), ["runs"]);
    assert_eq!(harness.cluster.removed()[0].verdict.rule, "terminated-pod-ttl");
}

// behaviour: PGC-91
#[tokio::test(start_paused = true)]
async fn terminated_pods_per_namespace_are_limited() {
    let per_namespace = Some(1);
    let mut harness =
        Harness::new(with(TerminatedPolicy { per_namespace, ..TerminatedPolicy::default() }));
    for (name, created) in [("a/1", 1), ("a/2", 2), ("a/3", 3), ("b/1", 1), ("c/1", 9)] {
        harness.cluster.create_pod(aged(name, Failed, created));
    }
    harness.cluster.create_pod(aged("a/runs", Running, 1));
    harness.cycle().await;
    assert_eq!(harness.left(), ["a/3", "a/runs", "b/1", "c/1"]);
}

// behaviour: PGC-92
#[tokio::test(start_paused = true)]
async fn terminated_pods_per_node_are_limited() {
    let per_node = Some(1);
    let mut harness =
        Harness::new(with(TerminatedPolicy { per_node, ..TerminatedPolicy::default() }));
    for (name, node, created) in [("1", "n", 1), ("2", "n", 2), ("3", "m", 1), ("4", "", 1)] {
        let pod = PodRecord { created, ..on_node(name, Failed, node) };
        harness.cluster.create_pod(pod);
    }
    harness.cycle().await;
    assert_eq!(harness.left(), ["2", "3", "4"]);
}

// behaviour: PGC-93
#[tokio::test(start_paused = true)]
async fn pods_deleted_by_one_rule_are_not_counted_by_the_next() {
    let policy = TerminatedPolicy { threshold: 2, per_namespace: Some(2), ..<_>::default() };
    let mut harness = Harness::new(with(policy));
    for (name, created) in [("a/1", 5), ("a/2", 6), ("a/3", 7), ("b/1", 1), ("b/2", 2)] {
        harness.cluster.create_pod(aged(name, Failed, created));
    }
    harness.cycle().await;
    assert_eq!(harness.left(), ["a/2", "a/3"], "one over the cap, and the oldest two of four");
}

// behaviour: PGC-94
#[tokio::test(start_paused = true)]
async fn pods_can_be_ordered_by_finish_time() {
    let mut harness = Harness::ordered(threshold(1), Order::Finish);
    for (name, created, finished) in [("a", 1, Some(90)), ("b", 2, Some(10)), ("c", 50, None)] {
        harness.cluster.create_pod(PodRecord { finished, ..aged(name, Failed, created) });
    }
    harness.cycle().await;
    assert_eq!(harness.left(), ["a"]);
    assert_eq!(harness.cluster.calls_of(ApiCall::RemovePod), ["default/b", "default/c"]);
}

// behaviour: PGC-95
#[tokio::test(start_paused = true)]
async fn excluded_pods_are_neither_counted_nor_deleted() {
    let mut harness = Harness::new(threshold(1));
    harness.cluster.create_pod(PodRecord { is_excluded: true, ..aged("kept", Failed, 1) });
    harness
        .cluster
        .create_pod(PodRecord { is_excluded: true, ..on_node("orphan", Running, "gone") });
    harness.cluster.create_pod(aged("a", Failed, 2));
    harness.cycles(Duration::from_secs(100)).await;
    assert_eq!(harness.left(), ["a", "kept", "orphan"]);
    assert_eq!(harness.cluster.calls(), []);
    harness.cluster.update_pod("kept", |pod| pod.is_excluded = false);
    harness.cycle().await;
    assert_eq!(harness.left(), ["a", "orphan"]);
}

// behaviour: PGC-96
#[tokio::test(start_paused = true)]
async fn dry_run_only_reports() {
    let mut harness = Harness::new(PodGcSettings { dry_run: true, ..threshold(1) });
    for (name, created) in [("a", 1), ("b", 2), ("c", 3)] {
        harness.cluster.create_pod(aged(name, Failed, created));
    }
    harness.cluster.create_pod(on_node("o", Running, "gone"));
    harness.cycles(Duration::from_secs(200)).await;
    assert_eq!(harness.left(), ["a", "b", "c", "o"]);
    assert_eq!(harness.cluster.calls_of(ApiCall::RemovePod), [""; 0]);
    assert_eq!(harness.cluster.calls_of(ApiCall::FailPod), [""; 0]);
    let reported =
        |reason| harness.count("ferrolet_pod_gc_dry_run_deletions_total", "default", reason);
    assert_eq!((reported("terminated"), reported("orphaned")), (2, 1), "once each");
    assert_eq!(harness.tried("terminated"), (0, 0));
}

// behaviour: PGC-97
#[tokio::test(start_paused = true)]
async fn cycle_deletes_at_most_its_share_of_pods() {
    let mut harness =
        Harness::new(PodGcSettings { max_deletion_percent: Some(10.0), ..threshold(1) });
    for number in 0..50 {
        harness.cluster.create_pod(aged(&format!("t{number:02}"), Failed, number + 1));
        harness.cluster.create_pod(aged(&format!("r{number:02}"), Running, number + 1));
    }
    harness.cycle().await;
    assert_eq!(harness.left().len(), 90);
    harness.cycle().await;
    assert_eq!(harness.left().len(), 81);
    for _ in 0..20 {
        harness.cycle().await;
    }
    assert_eq!(harness.left().len(), 51, "and all in the end");
}

// behaviour: PGC-131, PGC-132
#[tokio::test(start_paused = true)]
async fn orphaned_pods_are_deleted_within_the_share_without_a_second_wait() {
    let mut harness =
        Harness::new(PodGcSettings { max_deletion_percent: Some(10.0), ..threshold(1) });
    for number in 0..80 {
        harness.cluster.create_pod(aged(&format!("t{number:02}"), Failed, number + 1));
    }
    for number in 0..20 {
        harness.cluster.create_pod(on_node(&format!("o{number:02}"), Running, "gone"));
    }
    let orphans =
        |harness: &Harness| harness.left().iter().filter(|name| name.starts_with('o')).count();
    let mut seen = Vec::new();
    for _ in 0..7 {
        harness.cycle().await;
        seen.push((harness.left().len(), orphans(&harness)));
        tokio::time::sleep(podgc::task::PERIOD).await;
    }
    // The quarantine ends with the third cycle; from then on half of each share is for orphaned pods, until
    // none is left.
    let expected = [(90, 20), (81, 20), (73, 16), (66, 12), (60, 9), (54, 6), (49, 3)];
    assert_eq!(seen, expected);
    for _ in 0..3 {
        harness.cycle().await;
        tokio::time::sleep(podgc::task::PERIOD).await;
    }
    assert_eq!(orphans(&harness), 0);
}

// behaviour: PGC-98
#[tokio::test(start_paused = true)]
async fn every_deletion_has_an_event_and_a_verdict_with_rule_and_details() {
    let mut harness = Harness::new(threshold(1));
    for (name, created) in [("a", 1), ("b", 2), ("c", 3)] {
        harness.cluster.create_pod(aged(name, Failed, created));
    }
    harness.cycle().await;
    let event = harness.events.try_recv().unwrap();
    assert_eq!((event.about.name.as_str(), &*event.reason), ("a", "PodGC"));
    assert_eq!(
        event.message,
        "Deleted by terminated-pod-threshold: 3 terminated pods in the cluster, 1 may stay; \
         it is number 1 to go"
    );
    let removed = &harness.cluster.removed()[0];
    let uid = removed.record.uid.to_string();
    assert_eq!(
        removed.verdict.to_string(),
        format!(
            "remove pod {uid} of pod default/a ({uid}) by terminated-pod-threshold (terminated 3, \
             allowed 1, position 1, phase Failed, created 1970-01-01T00:00:01Z)"
        )
    );
}
