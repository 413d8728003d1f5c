//! What a watch tells, and what is shown of it.

use jiff::Timestamp;

use super::*;
use crate::commands::display::{JsonLines, LiveTable, TableLines};
use crate::commands::pods_table::Layout;
use crate::commands::screen::Size;
use crate::commands::test_pods::{crashing, now, running};

fn line(kind: WatchKind, item: Option<PodItem<Pod>>) -> WatchLine<Pod> {
    WatchLine { kind, object: item }
}

/// Tells a display what a watch tells, and gives what the display wrote.
fn told(display: &mut dyn Display, known: &mut Known, lines: Vec<WatchLine<Pod>>, now: Timestamp) {
    for line in lines {
        if let Some(changes) = known.take(line) {
            display.changed(&changes, &known.pods, now).unwrap();
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

/// An agent that came back tells all again; only what is different is a change.
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
fn without_a_terminal_there_is_a_table_and_then_a_line_for_each_change() {
    let (mut out, mut notices) = (Vec::new(), Vec::new());
    let mut display = TableLines::new(&mut out, &mut notices, Layout::default());
    let mut known = Known::default();
    told(&mut display, &mut known, beginning(), now());
    let changes = vec![
        line(WatchKind::Modified, Some(crashing("default", "web"))),
        line(WatchKind::Deleted, Some(running("default", "db"))),
    ];
    told(&mut display, &mut known, changes, now());
    display.tick(&known.pods, now()).unwrap();
    display.notice(Some("gone"), &known.pods, now()).unwrap();
    display.notice(None, &known.pods, now()).unwrap();
    let expected = [
        "NAME   READY   STATUS    RESTARTS   AGE   IP         LAST EVENT",
        "db     1/1     Running   0          10m   10.0.0.7   <none>",
        "web    1/1     Running   0          10m   10.0.0.7   <none>",
        "web    0/1     CrashLoopBackOff   3 (30s ago)   10m   10.0.0.7   12s ago BackOff: Back-off restarting failed container",
        "db     1/1     Deleted            0             10m   10.0.0.7   <none>",
    ];
    assert_eq!(text(out), expected);
    assert_eq!(text(notices), ["ferrolet: gone"]);
}

#[test]
fn an_agent_that_came_back_only_tells_what_is_different() {
    let (mut out, mut notices) = (Vec::new(), Vec::new());
    let mut display = JsonLines::new(&mut out, &mut notices);
    let mut known = Known::default();
    told(&mut display, &mut known, beginning(), now());
    known.coming = Some(Pods::new());
    told(&mut display, &mut known, again(), now());
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
fn on_a_terminal_the_table_is_drawn_in_place() {
    let mut out = Vec::new();
    let size = || Some(Size { columns: 60, rows: 10 });
    let mut display = LiveTable::new(&mut out, Layout::default(), size);
    let mut known = Known::default();
    display.tick(&known.pods, now()).unwrap();
    told(&mut display, &mut known, beginning(), now());
    display.notice(Some("gone"), &known.pods, now()).unwrap();
    let drawn = String::from_utf8(out).unwrap();
    let expected = "\r\x1b[J\
        NAME   READY   STATUS    RESTARTS   AGE   IP         LAST E…\r\n\
        db     1/1     Running   0          10m   10.0.0.7   <none>\r\n\
        web    1/1     Running   0          10m   10.0.0.7   <none>\r\n\
        \x1b[3A\r\x1b[J\
        (gone)\r\n\
        NAME   READY   STATUS    RESTARTS   AGE   IP         LAST E…\r\n\
        db     1/1     Running   0          10m   10.0.0.7   <none>\r\n\
        web    1/1     Running   0          10m   10.0.0.7   <none>\r\n";
    assert_eq!(drawn, expected);
}
