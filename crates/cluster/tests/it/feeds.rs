use std::sync::Arc;
use std::time::Duration;

use model::cluster::{NodeRecord, PodRecord, Uid};
use model::ports::cluster::{Change, Nodes as _, PodFeed as _, Sink};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::server::{Answer, Server, busy, lines, ok, refused};

/// Records changes in short form.
#[derive(Debug, Default)]
struct RecordingSink(watch::Sender<Vec<String>>);

impl RecordingSink {
    fn note(&self, text: String) {
        self.0.send_modify(|all| all.push(text));
    }

    async fn all(&self, count: usize) -> Vec<String> {
        let mut changes = self.0.subscribe();
        let enough = timeout(Duration::from_secs(30), changes.wait_for(|all| all.len() >= count));
        enough.await.unwrap_or_else(|_| panic!("only {:?}", self.0.borrow())).unwrap().clone()
    }
}

impl Sink<PodRecord, Uid> for RecordingSink {
    fn receive(&self, change: Change<PodRecord, Uid>) {
        self.note(match change {
            Change::Restarted => "restarted".to_owned(),
            Change::Applied(pod) => format!("+{} {}", pod.name, pod.phase),
            Change::Gone(uid) => format!("-{uid}"),
            Change::Unread(uid) => format!("?{uid}"),
            Change::Complete => "complete".to_owned(),
        });
    }
}

impl Sink<NodeRecord, String> for RecordingSink {
    fn receive(&self, change: Change<NodeRecord, String>) {
        self.note(match change {
            Change::Restarted => "restarted".to_owned(),
            Change::Applied(node) => format!("+{} {}", node.name, node.is_ready),
            Change::Gone(name) => format!("-{name}"),
            Change::Unread(name) => format!("?{name}"),
            Change::Complete => "complete".to_owned(),
        });
    }
}

fn pod(kind: &str, name: &str, version: u32) -> String {
    format!(
        r#"{{"type":"{kind}","object":{{"kind":"Pod","metadata":{{"name":"{name}","namespace":"d","uid":"u-{name}","resourceVersion":"{version}"}},"status":{{"phase":"Running"}}}}}}"#
    )
}

fn bookmark(version: u32, end: bool) -> String {
    let end = if end { r#","annotations":{"k8s.io/initial-events-end":"true"}"# } else { "" };
    format!(
        r#"{{"type":"BOOKMARK","object":{{"kind":"Pod","metadata":{{"resourceVersion":"{version}","creationTimestamp":null{end}}},"spec":{{"containers":null}},"status":{{}}}}}}"#
    )
}

const EXPIRED: &str = r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410,"reason":"Expired","message":"too old"}}"#;

fn stream(events: &[String]) -> Answer {
    lines(&events.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The response to a read of the server's version before a watch.
fn at(version: u32) -> Answer {
    ok(format!(
        r#"{{"kind":"PodList","metadata":{{"resourceVersion":"{version}"}},"items":[{{"metadata":{{"name":"x"}}}}]}}"#
    ))
}

/// Follows pods on a server with a script; returns the changes and the requested paths.
async fn follow(
    script: Vec<Answer>,
    changes: usize,
    requested: usize,
) -> (Vec<String>, Vec<String>) {
    let server = Server::start(script).await;
    let cluster = server.cluster().await;
    let sink = Arc::new(RecordingSink::default());
    let mut tasks = JoinSet::new();
    let task_sink = Arc::clone(&sink);
    tasks.spawn(async move { cluster.follow_pods(&*task_sink).await });
    let all = sink.all(changes).await;
    let paths = timeout(Duration::from_secs(30), server.paths(requested)).await.unwrap();
    (all, paths)
}

const STREAM: &str = "/api/v1/pods?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
const CURRENT: &str = "/api/v1/pods?limit=1";
const WATCH: &str = "/api/v1/pods?watch=true&allowWatchBookmarks=true&resourceVersion=";

// behaviour: PGC-121
#[tokio::test]
async fn streaming_list_continues_as_a_watch_and_resumes_at_its_last_version() {
    let first = [
        pod("ADDED", "a", 3),
        pod("ADDED", "b", 1),
        bookmark(5, true),
        pod("MODIFIED", "a", 6),
        pod("DELETED", "b", 7),
        bookmark(9, false),
    ];
    let script = vec![stream(&first), at(9), stream(&[pod("ADDED", "c", 12)]), at(30)];
    let (changes, paths) = follow(script, 7, 5).await;
    let expected =
        ["restarted", "+a Running", "+b Running", "complete", "+a Running", "-u-b", "+c Running"];
    assert_eq!(changes, expected);
    let expected = [STREAM, CURRENT, &format!("{WATCH}9"), CURRENT, &format!("{WATCH}12")];
    assert_eq!(paths[..5], expected);
}

// behaviour: PGC-122
#[tokio::test]
async fn server_without_streaming_lists_is_listed_in_pages() {
    let page = |name: &str, next: &str| {
        ok(format!(
            r#"{{"kind":"PodList","metadata":{{"resourceVersion":"20","continue":"{next}"}},"items":[{{"metadata":{{"name":"{name}","uid":"u","resourceVersion":"2"}},"status":{{"phase":"Failed"}}}}]}}"#
        ))
    };
    let script = vec![
        refused(400, "sendInitialEvents is forbidden"),
        page("a", "x=/1"),
        page("b", ""),
        stream(&[pod("DELETED", "a", 21)]),
        at(21),
    ];
    let (changes, paths) = follow(script, 5, 6).await;
    assert_eq!(changes, ["restarted", "+a Failed", "+b Failed", "complete", "-u-a"]);
    let expected = [
        STREAM.to_owned(),
        "/api/v1/pods?limit=500".to_owned(),
        "/api/v1/pods?limit=500&continue=x%3D%2F1".to_owned(),
        format!("{WATCH}20"),
        CURRENT.to_owned(),
        format!("{WATCH}21"),
    ];
    assert_eq!(paths[..6], expected);
}

// behaviour: PGC-123
#[tokio::test]
async fn expired_version_causes_a_new_list() {
    for forgotten in [lines(&[EXPIRED]), refused(410, "too old")] {
        let script = vec![
            stream(&[pod("ADDED", "a", 3), bookmark(5, true)]),
            at(5000),
            forgotten,
            stream(&[pod("ADDED", "b", 8), bookmark(9, true)]),
        ];
        let (changes, paths) = follow(script, 6, 5).await;
        let expected =
            ["restarted", "+a Running", "complete", "restarted", "+b Running", "complete"];
        assert_eq!(changes, expected);
        assert_eq!(paths[..5], [STREAM, CURRENT, &format!("{WATCH}5"), STREAM, CURRENT]);
    }
}

// behaviour: PGC-127
#[tokio::test]
async fn server_at_an_older_version_is_listed_again() {
    let anew = || stream(&[pod("ADDED", "b", 4), bookmark(7, true)]);
    let first = || stream(&[pod("ADDED", "a", 50), bookmark(60, true)]);
    // Before the watch, and during it.
    let scripts = [
        vec![first(), at(6), anew()],
        vec![first(), at(60), stream(&[pod("ADDED", "c", 5)]), anew()],
        vec![first(), at(60), stream(&[bookmark(6, false), pod("ADDED", "c", 61)]), anew()],
    ];
    for script in scripts {
        let requested = script.len();
        let (changes, paths) = follow(script, 8, requested).await;
        let expected = [
            "restarted",
            "+a Running",
            "complete",
            // Those objects do not exist.
            "restarted",
            "complete",
            "restarted",
            "+b Running",
            "complete",
        ];
        assert_eq!(changes, expected);
        assert_eq!((&*paths[1], &*paths[requested - 1]), (CURRENT, STREAM));
    }
}

// behaviour: PGC-127
#[tokio::test]
async fn non_numeric_versions_are_not_compared() {
    let end = bookmark(60, true).replace("60", "x60");
    let named = ok(r#"{"metadata":{"resourceVersion":"a"},"items":[]}"#);
    let script = vec![stream(&[end]), named, stream(&[pod("ADDED", "a", 3)])];
    let (changes, paths) = follow(script, 3, 3).await;
    assert_eq!(changes, ["restarted", "complete", "+a Running"]);
    assert_eq!(paths[2], format!("{WATCH}x60"));
}

// behaviour: PGC-124
#[tokio::test]
async fn truncated_list_is_never_complete() {
    let script = vec![
        stream(&[pod("ADDED", "a", 3)]),
        busy(429, "1"),
        stream(&[pod("ADDED", "b", 8), bookmark(9, true)]),
    ];
    let (changes, paths) = follow(script, 5, 3).await;
    assert_eq!(changes, ["restarted", "+a Running", "restarted", "+b Running", "complete"]);
    assert_eq!(paths[..3], [STREAM; 3]);
}

// behaviour: PGC-125
#[tokio::test]
async fn malformed_event_breaks_the_watch_and_the_feed_resumes() {
    let script = vec![
        stream(&[bookmark(5, true), "{nonsense".to_owned(), pod("ADDED", "x", 6)]),
        at(6),
        stream(&[pod("ADDED", "a", 7)]),
    ];
    let (changes, paths) = follow(script, 3, 3).await;
    assert_eq!(changes, ["restarted", "complete", "+a Running"]);
    assert_eq!(paths[2], format!("{WATCH}5"));
}

// behaviour: PGC-129
#[tokio::test]
async fn undecodable_object_is_reported_as_unread_and_others_are_applied() {
    let odd = |kind: &str, version: u32| {
        pod(kind, "odd", version).replace(r#""phase":"Running""#, r#""phase":7"#)
    };
    let first = [
        pod("ADDED", "a", 3),
        odd("ADDED", 4),
        bookmark(5, true),
        odd("MODIFIED", 6),
        pod("MODIFIED", "a", 7),
        odd("DELETED", 8),
    ];
    let (changes, paths) = follow(vec![stream(&first), at(8)], 7, 3).await;
    let expected =
        ["restarted", "+a Running", "?u-odd", "complete", "?u-odd", "+a Running", "-u-odd"];
    assert_eq!(changes, expected);
    assert_eq!(paths[2], format!("{WATCH}8"), "all events were received");
    // With pages.
    let item = |event: String| {
        let event: serde_json::Value = serde_json::from_str(&event).unwrap();
        event["object"].to_string()
    };
    let page = format!(
        r#"{{"kind":"PodList","metadata":{{"resourceVersion":"20"}},"items":[{},{}]}}"#,
        item(odd("ADDED", 4)),
        item(pod("ADDED", "a", 3))
    );
    let (changes, _) = follow(vec![refused(400, "no"), ok(page)], 4, 3).await;
    assert_eq!(changes, ["restarted", "?u-odd", "+a Running", "complete"]);
}

// behaviour: PGC-122
#[tokio::test]
async fn watch_follows_a_list_without_a_delay() {
    let mut took = Vec::new();
    // A machine may be slow once, but not each time for as long as a delay.
    for _ in 0..3 {
        let page = ok(r#"{"metadata":{"resourceVersion":"20"},"items":[]}"#);
        let script = vec![refused(400, "sendInitialEvents is forbidden"), page];
        let begun = Instant::now();
        let (_, paths) = follow(script, 2, 3).await;
        took.push(begun.elapsed());
        assert_eq!(paths[2], format!("{WATCH}20"));
    }
    assert!(took.iter().any(|took| *took < Duration::from_millis(700)), "{took:?}");
}

#[tokio::test]
async fn nodes_are_keyed_by_name() {
    let node = |kind: &str, version: u32, ready: &str| {
        format!(
            r#"{{"type":"{kind}","object":{{"metadata":{{"name":"n","resourceVersion":"{version}"}},"status":{{"conditions":[{{"type":"Ready","status":"{ready}"}}]}}}}}}"#
        )
    };
    let events = [
        node("ADDED", 3, "True"),
        bookmark(4, true),
        node("MODIFIED", 5, "Unknown"),
        node("DELETED", 6, "Unknown"),
    ];
    let server = Server::start([stream(&events)]).await;
    let cluster = server.cluster().await;
    let sink = Arc::new(RecordingSink::default());
    let mut tasks = JoinSet::new();
    let task_sink = Arc::clone(&sink);
    tasks.spawn(async move { cluster.follow_nodes(&*task_sink).await });
    assert_eq!(sink.all(5).await, ["restarted", "+n true", "complete", "+n false", "-n"]);
}
