//! Why containers were killed and restarted, and why pods were rejected.

use std::time::Duration;

use journal::{Entry, Query, find_incidents};

use crate::world::World;

/// The incidents of a pod as `KIND RULE: NUMBERS`, the oldest first.
pub(crate) fn incidents(world: &World, pod: &str) -> Vec<String> {
    let query = Query::new(&format!("{pod}-node"));
    let found = find_incidents(&world.journal, &query, 100).expect("the journal can be read");
    let line = |entry: Entry| format!("{} {}: {}", entry.kind, entry.rule, entry.detail);
    let mut lines: Vec<String> = found.entries.into_iter().map(line).collect();
    lines.reverse();
    lines
}

async fn has_incidents(world: &World, pod: &str, expected: &[&str]) {
    let what = format!("{expected:?} are recorded of {pod}");
    world.until(&what, |world| (incidents(world, pod) == expected).then_some(())).await;
}

// behaviour: WHY-7, WHY-8, WHY-9, WHY-14
#[tokio::test(start_paused = true)]
async fn kills_restarts_oom_kills_and_rejections_are_recorded_once() {
    let mut world = World::new();
    world.allocatable = vec![("cpu", "2")];
    world.write_manifest("web", "Always", "[exit, \"1\"]");
    world.write_manifest("db", "Always", "[sleep, forever]");
    let big = "  containers:\n  - {name: main, image: \"ferrolet.test/workload:1\", \
               resources: {requests: {cpu: 3}}}\n";
    world.write_spec("big", big);
    let agent = world.start();
    let restarts = [
        "restart exit: exitCode 1, reason Error, restartCount 1",
        "restart exit: exitCode 1, reason Error, restartCount 2, backOff 10s",
    ];
    has_incidents(&world, "web", &restarts).await;
    let rejected = incidents(&world, "big");
    assert!(
        rejected[0].starts_with("rejection UnexpectedAdmissionError: message "),
        "{rejected:?}"
    );
    assert!(rejected.len() == 1 && rejected[0].contains("Not enough cpu"), "{rejected:?}");

    let db = world.one_runs("db").await;
    assert!(world.runtime.oom_kill(&db.id));
    let killed = [
        "oom out-of-memory: exitCode 137",
        "restart exit: exitCode 137, signal 9, reason OOMKilled, restartCount 1",
    ];
    has_incidents(&world, "db", &killed).await;

    // The next agent observes the dead container again, and rejects the pod again.
    agent.stop().await;
    let _agent = world.start();
    tokio::time::sleep(Duration::from_secs(30)).await;
    has_incidents(&world, "db", &killed).await;
    assert_eq!(incidents(&world, "big"), rejected);
    world.remove_manifest("db");
    let removed = [killed[0], killed[1], "kill pod-removed: gracePeriod 30s"];
    has_incidents(&world, "db", &removed).await;
}
