//! Watching pods.

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use server::wire::{WatchKind, WatchLine};

use crate::harness::{Harness, Lines, ended, running};

/// The content of a line: its kind, the pod's name, the reason of the last event.
async fn next(lines: &mut Lines) -> (WatchKind, String, String) {
    let line = lines.next().await.expect("the watch is open");
    let line: WatchLine<Pod> = serde_json::from_str(&line).unwrap();
    let Some(object) = line.object else { return (line.kind, String::new(), String::new()) };
    let reason = object.last_event.map(|event| event.reason).unwrap_or_default();
    (line.kind, object.pod.metadata.name.unwrap_or_default(), reason)
}

fn line(kind: WatchKind, pod: &str, reason: &str) -> (WatchKind, String, String) {
    (kind, pod.to_owned(), reason.to_owned())
}

#[tokio::test]
async fn watch_starts_with_the_state_and_continues_with_changes() {
    use WatchKind::{Added, Deleted, Modified, Synced};
    let harness = Harness::new();
    harness.pods.set("a", running("1"));
    harness.pods.set("b", running("2"));
    let mut lines = Lines::of(harness.send("GET", "/pods?watch=true", "").await);
    assert_eq!(next(&mut lines).await, line(Added, "a", ""));
    assert_eq!(next(&mut lines).await, line(Added, "b", ""));
    assert_eq!(next(&mut lines).await, line(Synced, "", ""));
    harness.pods.set("a", ended("1"));
    assert_eq!(next(&mut lines).await, line(Modified, "a", ""));
    harness.record_event("b", "BackOff");
    assert_eq!(next(&mut lines).await, line(Modified, "b", "BackOff"));
    harness.pods.set("c", running("3"));
    assert_eq!(next(&mut lines).await, line(Added, "c", ""));
    // Set to its current value: no change, so the next line is about the removed pod.
    harness.pods.set("c", running("3"));
    harness.pods.remove("b");
    assert_eq!(next(&mut lines).await, line(Deleted, "b", "BackOff"));
}

#[tokio::test]
async fn watch_of_an_empty_node_is_synced_at_once() {
    let harness = Harness::new();
    let mut lines = Lines::of(harness.send("GET", "/pods?watch=1", "").await);
    assert_eq!(lines.next().await.unwrap(), "{\"type\":\"SYNCED\"}");
}

#[tokio::test]
async fn slow_watch_receives_the_latest_state() {
    let harness = Harness::new();
    let status = |number: u32| PodStatus {
        message: Some(format!("{number} {}", "x".repeat(50_000))),
        ..PodStatus::default()
    };
    harness.pods.set("a", status(0));
    let mut lines = Lines::of(harness.send("GET", "/pods?watch=true", "").await);
    for number in 1..=1000 {
        harness.pods.set("a", status(number));
        // Lets the server write as much as the socket accepts.
        tokio::task::yield_now().await;
    }
    let mut read = 0;
    loop {
        let line = lines.next().await.expect("the watch is open");
        read += 1;
        if line.contains("\"1000 x") {
            break;
        }
    }
    assert!(read < 100, "{read} lines of 1000 changes");
}

#[tokio::test]
async fn watch_ends_with_the_agent() {
    let harness = Harness::new();
    harness.pods.shut();
    let mut lines = Lines::of(harness.send("GET", "/pods?watch=true", "").await);
    assert_eq!(lines.next().await.unwrap(), "{\"type\":\"SYNCED\"}");
    assert_eq!(lines.next().await, None);
}

#[tokio::test]
async fn refused_manifests_are_watched_with_the_pods() {
    let harness = Harness::new();
    harness.pods.refuse(&["/m/a.yaml"]);
    let mut lines = Lines::of(harness.send("GET", "/pods?watch=true", "").await);
    let mut refused = async || {
        let line = lines.next().await.expect("the watch is open");
        let line: WatchLine<Pod> = serde_json::from_str(&line).unwrap();
        let names: Vec<String> = line.refused.into_iter().map(|one| one.manifest).collect();
        (line.kind, names)
    };
    assert_eq!(refused().await, (WatchKind::Refused, vec!["/m/a.yaml".to_owned()]));
    assert_eq!(refused().await, (WatchKind::Synced, vec![]));
    harness.pods.refuse(&[]);
    assert_eq!(refused().await, (WatchKind::Refused, vec![]));
}
