//! Tables as people see them.

use super::*;
use crate::commands::test_pods::{crashing, now, running};

fn lines(layout: Layout, terminal: Option<usize>) -> Vec<String> {
    let mut pods =
        vec![running("default", "web-node"), crashing("default", "a"), running("b-system", "z")];
    sort(&mut pods);
    table_lines(layout, &pods, now(), terminal)
}

#[test]
fn a_pod_is_a_row_of_a_table() {
    let expected = [
        "NAME       READY   STATUS             RESTARTS      AGE   IP         LAST EVENT",
        "z          1/1     Running            0             10m   10.0.0.7   <none>",
        "a          0/1     CrashLoopBackOff   3 (30s ago)   10m   10.0.0.7   12s ago BackOff: Back-off restarting failed container",
        "web-node   1/1     Running            0             10m   10.0.0.7   <none>",
    ];
    assert_eq!(lines(Layout::default(), None), expected);
}

#[test]
fn a_wide_table_of_all_namespaces_has_more_columns() {
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
fn a_narrow_terminal_shows_what_fits() {
    let lines = lines(Layout::default(), Some(40));
    let expected = [
        "NAME       READY   STATUS             R…",
        "z          1/1     Running            0…",
        "a          0/1     CrashLoopBackOff   3…",
        "web-node   1/1     Running            0…",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_pod_without_a_status_is_pending() {
    let mut item = running("default", "new");
    item.pod.status = None;
    let row = Layout::default().row(&item, None, now());
    assert_eq!(row, ["new", "0/1", "Pending", "0", "<unknown>", "<none>", "<none>"]);
}

#[test]
fn who_finds_nothing_is_told_where_to_look() {
    let args = |all_namespaces| Args {
        place: Place { root_dir: "/r".into() },
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
