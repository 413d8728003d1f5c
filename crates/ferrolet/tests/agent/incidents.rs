//! Why containers were killed and restarted, and why pods were rejected.

use std::time::Duration;

use journal::{Entry, Query, find_incidents};

use crate::harness::Harness;

/// The incidents of a static pod as `KIND RULE: NUMBERS`, the oldest first.
pub(crate) fn incidents(harness: &Harness, pod: &str) -> Vec<String> {
    recorded(harness, &format!("{pod}-node"))
}

/// The incidents under a name.
pub(crate) fn recorded(harness: &Harness, name: &str) -> Vec<String> {
    let query = Query::new(name);
    let found = find_incidents(&harness.journal, &query, 100).expect("the journal can be read");
    let line = |entry: Entry| format!("{} {}: {}", entry.kind, entry.rule, entry.detail);
    let mut lines: Vec<String> = found.entries.into_iter().map(line).collect();
    lines.reverse();
    lines
}

async fn has_incidents(harness: &Harness, pod: &str, expected: &[&str]) {
    let what = format!("{expected:?} are recorded of {pod}");
    harness.until(&what, |harness| (incidents(harness, pod) == expected).then_some(())).await;
}

// behaviour: WHY-7, WHY-8, WHY-9, WHY-14
#[tokio::test(start_paused = true)]
async fn kills_restarts_oom_kills_and_rejections_are_recorded_once() {
    let mut harness = Harness::new();
    harness.allocatable = vec![("cpu", "2")];
    harness.write_manifest("web", "Always", "[exit, \"1\"]");
    harness.write_manifest("db", "Always", "[sleep, forever]");
    let big = "  containers:\n  - {name: main, image: \"ferrolet.test/workload:1\", \
               resources: {requests: {cpu: 3}}}\n";
    harness.write_spec("big", big);
    let agent = harness.start();
    let restarts = [
        "restart exit: exitCode 1, reason Error, restartCount 1",
        "restart exit: exitCode 1, reason Error, restartCount 2, backOff 10s",
    ];
    has_incidents(&harness, "web", &restarts).await;
    let rejected = incidents(&harness, "big");
    assert!(
        rejected[0].starts_with("rejection UnexpectedAdmissionError: message "),
        "{rejected:?}"
    );
    assert!(rejected.len() == 1 && rejected[0].contains("Not enough cpu"), "{rejected:?}");

    let db = harness.one_runs("db").await;
    assert!(harness.runtime.oom_kill(&db.id));
    let killed = [
        "oom out-of-memory: exitCode 137",
        "restart exit: exitCode 137, signal 9, reason OOMKilled, restartCount 1",
    ];
    has_incidents(&harness, "db", &killed).await;

    // The next agent observes the dead container again, and rejects the pod again.
    agent.stop().await;
    let _agent = harness.start();
    tokio::time::sleep(Duration::from_secs(30)).await;
    has_incidents(&harness, "db", &killed).await;
    assert_eq!(incidents(&harness, "big"), rejected);
    harness.remove_manifest("db");
    let removed = [killed[0], killed[1], "kill pod-removed: gracePeriod 30s"];
    has_incidents(&harness, "db", &removed).await;
}
