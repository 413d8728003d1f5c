//! The text of tables.

use super::*;
use crate::commands::test_pods::{crashing, now, running};

fn lines(layout: Layout, terminal: Option<usize>) -> Vec<String> {
    let mut pods =
        vec![running("default", "web-node"), crashing("default", "a"), running("b-system", "z")];
    sort(&mut pods);
    table_lines(layout, &pods, now(), terminal)
}

#[test]
fn pod_is_a_table_row() {
    let expected = [
        "NAME       READY   STATUS             RESTARTS      AGE   IP         LAST EVENT",
        "z          1/1     Running            0             10m   10.0.0.7   <none>",
        "a          0/1     CrashLoopBackOff   3 (30s ago)   10m   10.0.0.7   12s ago BackOff: Back-off restarting failed container",
        "web-node   1/1     Running            0             10m   10.0.0.7   <none>",
    ];
    assert_eq!(lines(Layout::default(), None), expected);
}

#[test]
fn wide_table_of_all_namespaces_has_more_columns() {
    let lines = lines(Layout { namespace: true, wide: true }, None);
    assert_eq!(
        lines[0],
        "NAMESPACE   NAME       READY   STATUS             RESTARTS      AGE   IP         NODE   UID               LAST EVENT"
    );
    assert_eq!(
        lines[3],
        "default     web-node   1/1     Running            0             10m   10.0.0.7   node   uid-of-web-node   <none>"
    );
}

#[test]
fn narrow_terminal_shows_the_columns_that_fit() {
    let all = Layout { namespace: true, wide: true };
    let rows = [
        (Layout::default(), 100, "NAME READY STATUS RESTARTS AGE IP LAST EVENT"),
        (Layout::default(), 80, "NAME READY STATUS RESTARTS AGE LAST EVENT"),
        (Layout::default(), 70, "NAME READY STATUS RESTARTS LAST EVENT"),
        (Layout::default(), 60, "NAME READY STATUS RESTARTS AGE"),
        (Layout::default(), 40, "NAME READY STATUS"),
        (all, 90, "NAMESPACE NAME READY STATUS RESTARTS AGE LAST EVENT"),
        (all, 61, "NAMESPACE NAME READY STATUS RESTARTS"),
        (all, 60, "NAMESPACE NAME READY STATUS AGE NODE"),
        (all, 50, "NAMESPACE NAME READY STATUS"),
    ];
    for (layout, terminal, expected) in rows {
        let lines = lines(layout, Some(terminal));
        let words: Vec<&str> = lines[0].split_whitespace().collect();
        assert_eq!(words.join(" "), expected, "{terminal}");
        assert!(lines.iter().all(|line| crate::commands::table::width(line) <= terminal));
    }
}

#[test]
fn lines_are_cut_when_the_required_columns_do_not_fit() {
    assert_eq!(lines(Layout::default(), Some(24))[2], "a          0/1     Cras…");
}

#[test]
fn pod_without_status_is_pending() {
    let mut item = running("default", "new");
    item.pod.status = None;
    let row = Layout::default().row(&item, None, now());
    assert_eq!(row, ["new", "0/1", "Pending", "0", "<unknown>", "<none>", "<none>"]);
}

#[test]
fn empty_list_hints_at_other_namespaces() {
    let args = |all_namespaces| Args {
        place: Place { root_dir: "/r".into() },
        pods: Vec::new(),
        namespace: "default".to_owned(),
        all_namespaces,
        output: None,
        watch: false,
    };
    assert_eq!(nothing_found(&args(false), 0), "No pods found in namespace default.");
    let elsewhere = "No pods found in namespace default; -A shows the others.";
    assert_eq!(nothing_found(&args(false), 3), elsewhere);
    assert_eq!(nothing_found(&args(true), 0), "No pods found.");
}
