//! The displays of a watch.

use jiff::Timestamp;

use super::*;
use crate::commands::display::{LiveTable, ObjectStream, TableLines};
use crate::commands::output::Output;
use crate::commands::pods_table::Layout;
use crate::commands::screen::Size;
use crate::commands::test_pods::{crashing, now, running};

fn line(kind: WatchKind, item: Option<PodItem<Pod>>) -> WatchLine<Pod> {
    WatchLine { kind, object: item, refused: Vec::new() }
}

/// Passes lines of a watch to a display, and returns what it wrote.
fn apply(
    display: &mut dyn Display,
    reported: &mut WatchedPods,
    lines: Vec<WatchLine<Pod>>,
    now: Timestamp,
) {
    for line in lines {
        if let Some(changes) = reported.take(Some(line)) {
            display.changed(&changes, &reported.known, now).unwrap();
        }
    }
}

fn beginning() -> Vec<WatchLine<Pod>> {
    vec![
        line(WatchKind::Added, Some(running("default", "web"))),
        line(WatchKind::Added, Some(running("default", "db"))),
        line(WatchKind::Synced, None),
    ]
}

/// A restarted agent lists all pods again; only differences are changes.
fn again() -> Vec<WatchLine<Pod>> {
    vec![
        line(WatchKind::Added, Some(crashing("default", "web"))),
        line(WatchKind::Added, Some(running("default", "new"))),
        line(WatchKind::Synced, None),
    ]
}

fn text(bytes: Vec<u8>) -> Vec<String> {
    String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn watch_prints_a_table_then_one_line_per_change_without_a_terminal() {
    let (mut out, mut notices) = (Vec::new(), Vec::new());
    let mut display = TableLines::new(&mut out, &mut notices, Layout::default());
    let mut reported = WatchedPods::default();
    apply(&mut display, &mut reported, beginning(), now());
    let changes = vec![
        line(WatchKind::Modified, Some(crashing("default", "web"))),
        line(WatchKind::Deleted, Some(running("default", "db"))),
    ];
    apply(&mut display, &mut reported, changes, now());
    display.tick(&reported.known, now()).unwrap();
    display.notice(Some("gone"), &reported.known, now()).unwrap();
    display.notice(None, &reported.known, now()).unwrap();
    let expected = [
        "NAME                   READY   STATUS              RESTARTS        AGE     IP            LAST EVENT",
        "db                     1/1     Running             0               10m     10.0.0.7      <none>",
        "web                    1/1     Running             0               10m     10.0.0.7      <none>",
        "web                    0/1     CrashLoopBackOff    3 (30s ago)     10m     10.0.0.7      12s ago BackOff: Back-off restarting failed container",
        "db                     1/1     Deleted             0               10m     10.0.0.7      <none>",
    ];
    assert_eq!(text(out), expected);
    assert_eq!(text(notices), ["ferrolet: gone"]);
}

#[test]
fn watch_prints_only_differences_after_an_agent_restart() {
    let (mut out, mut notices) = (Vec::new(), Vec::new());
    let mut display = ObjectStream::new(&mut out, &mut notices, Output::Json);
    let mut reported = WatchedPods::default();
    apply(&mut display, &mut reported, beginning(), now());
    reported.coming = Some(DisplayState::default());
    apply(&mut display, &mut reported, again(), now());
    let kinds: Vec<(String, String)> = text(out)
        .iter()
        .map(|line| {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(event["object"]["kind"], "Pod");
            let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
            (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
        })
        .collect();
    let kinds: Vec<(&str, &str)> = kinds.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let expected = [
        ("ADDED", "db"),
        ("ADDED", "web"),
        ("DELETED", "db"),
        ("ADDED", "new"),
        ("MODIFIED", "web"),
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn watch_redraws_the_table_in_place_on_a_terminal() {
    let mut out = Vec::new();
    let size = || Some(Size { columns: 60, rows: 10 });
    let mut display = LiveTable::new(&mut out, Layout::default(), size);
    let mut reported = WatchedPods::default();
    display.tick(&reported.known, now()).unwrap();
    apply(&mut display, &mut reported, beginning(), now());
    display.notice(Some("gone"), &reported.known, now()).unwrap();
    let drawn = String::from_utf8(out).unwrap();
    let expected = "\r\x1b[J\
        NAME   READY   STATUS    RESTARTS   AGE   LAST EVENT\r\n\
        db     1/1     Running   0          10m   <none>\r\n\
        web    1/1     Running   0          10m   <none>\r\n\
        \x1b[3A\r\x1b[J\
        (gone)\r\n\
        NAME   READY   STATUS    RESTARTS   AGE   LAST EVENT\r\n\
        db     1/1     Running   0          10m   <none>\r\n\
        web    1/1     Running   0          10m   <none>\r\n";
    assert_eq!(drawn, expected);
}

#[test]
fn coloured_table_is_cut_and_redrawn_like_a_plain_one() {
    let mut out = Vec::new();
    let size = || Some(Size { columns: 30, rows: 10 });
    let mut display = LiveTable::new(&mut out, Layout::default(), size).coloured(true);
    let mut reported = WatchedPods::default();
    apply(&mut display, &mut reported, beginning(), now());
    display.notice(Some("gone"), &reported.known, now()).unwrap();
    let drawn = String::from_utf8(out).unwrap();
    assert!(drawn.contains("db     1/1     \x1b[32mRunning\x1b[0m"), "{drawn:?}");
    assert!(drawn.contains("\x1b[3A\r\x1b[J(gone)\r\n\x1b[1mNAME "), "{drawn:?}");
}

fn refused(manifest: &str) -> server::wire::RefusedManifest {
    server::wire::RefusedManifest {
        manifest: manifest.to_owned(),
        message: "bad".to_owned(),
        pod: None,
        last_good_stays: false,
    }
}

fn refusing(manifests: &[&str]) -> WatchLine<Pod> {
    let refused = manifests.iter().map(|manifest| refused(manifest)).collect();
    WatchLine { kind: WatchKind::Refused, object: None, refused }
}

#[test]
fn refused_manifest_is_printed_once_and_again_when_resolved() {
    let (mut out, mut notices) = (Vec::new(), Vec::new());
    let mut display = TableLines::new(&mut out, &mut notices, Layout::default());
    let mut reported = WatchedPods::default();
    let mut lines = beginning();
    lines.insert(0, refusing(&["/m/a.yaml"]));
    lines.push(refusing(&["/m/a.yaml", "/m/b.yaml"]));
    lines.push(refusing(&["/m/b.yaml"]));
    apply(&mut display, &mut reported, lines, now());
    assert_eq!(text(out).len(), 3, "no pod changed");
    let expected = [
        "ferrolet: /m/a.yaml was refused: bad",
        "ferrolet: /m/b.yaml was refused: bad",
        "ferrolet: /m/a.yaml is no longer refused",
    ];
    assert_eq!(text(notices), expected);
}

#[test]
fn refused_manifests_are_below_the_table_until_resolved_on_a_terminal() {
    let mut out = Vec::new();
    let size = || Some(Size { columns: 60, rows: 10 });
    let mut display = LiveTable::new(&mut out, Layout::default(), size);
    let mut reported = WatchedPods::default();
    let begin = vec![refusing(&["/m/a.yaml"]), line(WatchKind::Synced, None), refusing(&[])];
    apply(&mut display, &mut reported, begin, now());
    let drawn = String::from_utf8(out).unwrap();
    let drawings: Vec<&str> = drawn.split("\x1b[J").collect();
    assert!(drawings[1].contains("\r\n! a.yaml was refused: bad\r\n"), "{drawn}");
    assert!(!drawings[2].contains("a.yaml"), "{drawn}");
}

#[test]
fn header_is_printed_again_when_columns_widen() {
    let (mut out, mut notices) = (Vec::new(), Vec::new());
    let mut display = TableLines::new(&mut out, &mut notices, Layout::default());
    let mut reported = WatchedPods::default();
    apply(&mut display, &mut reported, beginning(), now());
    let long = "a-name-that-is-longer-than-usual";
    let changes = vec![
        line(WatchKind::Added, Some(running("default", long))),
        line(WatchKind::Modified, Some(crashing("default", "web"))),
    ];
    apply(&mut display, &mut reported, changes, now());
    let lines = text(out);
    assert!(lines[3].starts_with("NAME ") && lines[4].starts_with(long), "{lines:#?}");
    let place = |line: &str, word: &str| line.find(word).unwrap();
    assert_eq!(place(&lines[3], "STATUS"), place(&lines[5], "CrashLoop"), "{lines:#?}");
    assert_eq!(lines.len(), 6, "{lines:#?}");
}
