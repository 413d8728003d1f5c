//! Complete responses.

use hyper::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use server::wire::{EventItems, PodItems, Version};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::harness::{Harness, PATIENCE, running};

#[tokio::test]
async fn pods_are_returned_with_status_and_last_event() {
    let harness = Harness::new();
    harness.pods.set("web", running("id"));
    harness.pods.set("job", running("other"));
    harness.record_event("web", "Pulled");
    harness.record_event("web", "Started");
    let (status, content) = harness.get("/pods").await;
    assert_eq!(status, StatusCode::OK);
    let pods: PodItems<Pod> = serde_json::from_str(&content).unwrap();
    let web = pods.items.iter().find(|item| item.pod.metadata.name.as_deref() == Some("web"));
    let web = web.unwrap();
    assert_eq!(web.pod.status, Some(running("id")));
    assert_eq!(web.last_event.as_ref().unwrap().reason, "Started");
    assert_eq!(pods.items.len(), 2);
    let raw: serde_json::Value = serde_json::from_str(&content).unwrap();
    assert!(raw["items"][0]["lastEvent"].is_null() && raw["items"][0]["pod"]["kind"] == "Pod");
}

#[tokio::test]
async fn events_are_filtered_by_pod() {
    let harness = Harness::new();
    harness.record_event("web", "Pulled");
    harness.record_event("job", "Failed");
    harness.record_event("web", "Pulled");
    let reasons = |content: &str| -> Vec<(String, u64)> {
        let events: EventItems = serde_json::from_str(content).unwrap();
        events.items.into_iter().map(|item| (item.reason, item.count)).collect()
    };
    let (_, one) = harness.get("/events?pod=default%2Fweb").await;
    assert_eq!(reasons(&one), [("Pulled".to_owned(), 2)]);
    let (_, all) = harness.get("/events").await;
    assert_eq!(reasons(&all), [("Failed".to_owned(), 1), ("Pulled".to_owned(), 2)]);
    let (_, none) = harness.get("/events?pod=other/web").await;
    assert_eq!(reasons(&none), []);
    assert_eq!(harness.problem("GET", "/events?pod=web").await.0, 400);
}

#[tokio::test]
async fn health_names_failed_checks() {
    let harness = Harness::new();
    assert_eq!(harness.get("/healthz").await, (StatusCode::OK, "ok".to_owned()));
    let (status, all) = harness.get("/healthz?verbose").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(all, "[+]ping ok\n[+]relist ok\nhealthz check passed\n");
    *harness.agent.problem.lock().unwrap() = Some("3m ago".to_owned());
    let (status, all) = harness.get("/healthz").await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(all, "[+]ping ok\n[-]relist failed: 3m ago\nhealthz check failed\n");
}

#[tokio::test]
async fn metrics_version_and_verbosity_are_those_of_the_agent() {
    let harness = Harness::new();
    assert_eq!(harness.get("/metrics").await.1, "up 1\n");
    let version: Version = serde_json::from_str(&harness.get("/version").await.1).unwrap();
    assert_eq!((&*version.kubernetes, &*version.ferrolet), ("v1.36.3", "0.1.0"));
    let (status, _) = harness.send_text("PUT", "/debug/flags/v", "4\n").await;
    assert_eq!((status, *harness.agent.level.lock().unwrap()), (StatusCode::OK, 4));
    let long = "1".repeat(100_000);
    for body in ["", "-1", "much", &long] {
        let (status, _) = harness.send_text("PUT", "/debug/flags/v", body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
    }
    assert_eq!(*harness.agent.level.lock().unwrap(), 4);
}

#[tokio::test]
async fn not_found_is_a_json_error() {
    let harness = Harness::new();
    let rows = [
        ("GET", "/", 404),
        ("GET", "/nothing", 404),
        ("GET", "/pods/web", 404),
        ("POST", "/pods", 405),
        ("GET", "/debug/flags/v", 405),
        ("GET", "/logs/a/b/c/d", 404),
    ];
    for (method, path, expected) in rows {
        let (status, message) = harness.problem(method, path).await;
        assert_eq!(status, expected, "{method} {path}: {message}");
        assert!(message.contains(path), "{message}");
    }
}

#[tokio::test]
async fn endless_request_is_refused() {
    let harness = Harness::new();
    let mut stream = UnixStream::connect(&harness.socket).await.unwrap();
    stream.write_all(b"GET /pods HTTP/1.1\r\nhost: a\r\nx: ").await.unwrap();
    let flood = async {
        while stream.write_all(&[b'x'; 1024]).await.is_ok() {}
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok();
        answer
    };
    let answer = tokio::time::timeout(PATIENCE, flood).await.expect("the end in time");
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "{answer:?}");
}

#[tokio::test]
async fn server_stops_while_watches_are_open() {
    let mut harness = Harness::new();
    let _watching = harness.send("GET", "/pods?watch=true", "").await;
    harness.stop.cancel();
    let ended = tokio::time::timeout(PATIENCE, harness.tasks.join_next()).await;
    ended.expect("the end in time").unwrap().unwrap();
}
