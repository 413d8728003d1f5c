//! Why containers were killed and restarted, and why pods were rejected.

use std::time::Duration;

use journal::{Entry, Query, find_incidents};

use crate::harness::Harness;

/// What a kernel logs of a kill in a container.
fn kill_lines(uid: &str, id: &str) -> String {
    let cgroup = format!("/kubepods/besteffort/pod{uid}/{id}");
    format!(
        "hog invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n\
         memory: usage 20480kB, limit 20480kB, failcnt 72\n\
         oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,\
         oom_memcg={cgroup},task_memcg={cgroup},task=hog,pid=42,uid=0\n\
         Memory cgroup out of memory: Killed process 42 (hog) total-vm:77996kB\n"
    )
}

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

// behaviour: OOM-2, OOM-3, WHY-18
#[tokio::test(start_paused = true)]
async fn kill_in_the_kernel_log_is_an_event_of_its_pod_and_one_incident() {
    let harness = Harness::new();
    harness.write_manifest("db", "Always", "[sleep, forever]");
    let _agent = harness.start();
    let db = harness.one_runs("db").await;
    harness
        .until("the log is read", |harness| (harness.kernel_log.readers() > 0).then_some(()))
        .await;
    harness.kernel_log.write(&kill_lines(db.pod_uid.as_str(), db.id.as_str()));
    let events = |harness: &Harness| {
        let events = harness.events.all().into_iter();
        let kill = events.filter(|event| event.reason == "OOMKilling");
        let kills: Vec<_> = kill.map(|event| (event.field_path, event.message)).collect();
        (!kills.is_empty()).then_some(kills)
    };
    let expected = "Kernel killed process hog (pid 42) of container main: \
                    memory usage 20Mi reached the limit 20Mi of the container";
    let found = harness.until("an event", events).await;
    assert_eq!(found, [("spec.containers{main}".into(), expected.to_owned())]);
    // The first process of the container lives on until the kernel kills it too.
    let oom = "oom out-of-memory: process hog, pid 42, memoryLimit 20971520, memoryUsage 20971520";
    has_incidents(&harness, "db", &[oom]).await;
    assert!(harness.runtime.oom_kill(&db.id));
    let restart = "restart exit: exitCode 137, signal 9, reason OOMKilled, restartCount 1";
    has_incidents(&harness, "db", &[oom, restart]).await;
}

// behaviour: OOM-1
#[tokio::test(start_paused = true)]
async fn machine_out_of_memory_is_a_warning_of_the_node() {
    let harness = Harness::new();
    let _agent = harness.start();
    harness
        .until("the log is read", |harness| (harness.kernel_log.readers() > 0).then_some(()))
        .await;
    harness.kernel_log.write("Out of memory: Killed process 9 (db) total-vm:77996kB");
    let warned = |harness: &Harness| {
        let warnings = harness.node_warnings();
        warnings.contains(&"SystemOOM").then_some(())
    };
    harness.until("a warning", warned).await;
}
