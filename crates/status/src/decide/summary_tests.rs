//! Lines as `kubectl get pods` prints them.

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodCondition, PodStatus,
};
use model::observed::ContainerState::{Created, Exited, Running};

use crate::decide::summary;
use crate::decide::test_pods::{
    Harness, NOW, at, condition, container, deleted, ended, instance, pod, running, sidecar,
    status, time, waiting, with_init,
};

fn line(pod: &Pod, status: &PodStatus) -> (String, String, String) {
    let line = summary(pod, status, at(NOW));
    (line.ready, line.status, line.restarts.to_string())
}

/// The case, the inputs of the status, and ready, status and restarts of its line.
type Row = (&'static str, Harness, (&'static str, &'static str, &'static str));

fn check(rows: Vec<Row>) {
    for (what, harness, (ready, word, restarts)) in rows {
        let found = line(&harness.pod, &harness.status());
        assert_eq!(found, (ready.into(), word.into(), restarts.into()), "{what}");
    }
}

#[test]
fn pod_status_column_shows_progress() {
    let one = || pod("Always", &["a"]);
    let two = |policy| pod(policy, &["a", "b"]);
    let run = |id| instance(id, Running, 0);
    let rows = vec![
        ("new", Harness::new(one(), vec![]), ("0/1", "ContainerCreating", "0")),
        ("made", Harness::new(one(), vec![instance("a-0", Created, 0)]), ("0/1", "Pending", "0")),
        ("running", Harness::new(one(), vec![run("a-0")]), ("1/1", "Running", "0")),
        (
            "a bad image",
            Harness::new(one(), vec![]).with_start_failure("a", "ErrImagePull"),
            ("0/1", "ErrImagePull", "0"),
        ),
        (
            "crashing",
            Harness::new(one(), vec![instance("a-4", Exited, 1)])
                .with_start_failure("a", "CrashLoopBackOff"),
            ("0/1", "CrashLoopBackOff", "4 (11d ago)"),
        ),
        (
            "one crashing beside one that runs",
            Harness::new(two("Always"), vec![run("a-0"), instance("b-4", Exited, 1)])
                .with_start_failure("b", "CrashLoopBackOff"),
            ("1/2", "CrashLoopBackOff", "4 (11d ago)"),
        ),
        (
            "two that cannot start",
            Harness::new(two("Always"), vec![])
                .with_start_failure("a", "ErrImagePull")
                .with_start_failure("b", "CreateContainerError"),
            ("0/2", "ErrImagePull", "0"),
        ),
    ];
    check(rows);
}

#[test]
fn pod_status_column_shows_termination() {
    let one = || pod("Always", &["a"]);
    let two = |policy| pod(policy, &["a", "b"]);
    let run = |id| instance(id, Running, 0);
    let rows = vec![
        (
            "ended, about to run again",
            Harness::new(one(), vec![instance("a-1", Exited, 1)]),
            ("0/1", "Error", "1"),
        ),
        (
            "all done",
            Harness::new(pod("Never", &["a"]), vec![instance("a-0", Exited, 0)]),
            ("0/1", "Completed", "0"),
        ),
        (
            "failed",
            Harness::new(pod("Never", &["a"]), vec![instance("a-0", Exited, 2)]),
            ("0/1", "Error", "0"),
        ),
        (
            "the first one done, the other runs",
            Harness::new(two("Never"), vec![instance("a-0", Exited, 0), run("b-0")]),
            ("1/2", "NotReady", "0"),
        ),
        (
            "the first one done, the other failed",
            Harness::new(
                two("Never"),
                vec![instance("a-0", Exited, 0), instance("b-0", Exited, 1)],
            ),
            ("0/2", "Error", "0"),
        ),
        ("going", Harness::new(deleted(one()), vec![run("a-0")]), ("1/1", "Terminating", "0")),
    ];
    check(rows);
}

#[test]
fn init_containers_are_shown_until_completed() {
    let plain = || with_init(pod("Always", &["a"]), vec![container("x"), container("y")]);
    let beside = || with_init(pod("Always", &["a"]), vec![sidecar("x")]);
    let rows = vec![
        ("nothing ran", Harness::new(plain(), vec![]), ("0/1", "Init:0/2", "0")),
        (
            "the second runs",
            Harness::new(plain(), vec![instance("x-0", Exited, 0), instance("y-0", Running, 0)]),
            ("0/1", "Init:1/2", "0"),
        ),
        (
            "the first failed",
            Harness::new(plain(), vec![instance("x-3", Exited, 1)]),
            ("0/1", "Init:Error", "3"),
        ),
        (
            "the first crashes",
            Harness::new(plain(), vec![instance("x-3", Exited, 1)])
                .with_start_failure("x", "CrashLoopBackOff"),
            ("0/1", "Init:CrashLoopBackOff", "3 (11d ago)"),
        ),
        (
            "all done, the rest is to come",
            Harness::new(plain(), vec![instance("x-0", Exited, 0), instance("y-0", Exited, 0)]),
            ("0/1", "PodInitializing", "0"),
        ),
        (
            "restarts before do not count when it runs",
            Harness::new(
                plain(),
                vec![
                    instance("a-0", Running, 0),
                    instance("x-3", Exited, 0),
                    instance("y-0", Exited, 0),
                ],
            ),
            ("1/1", "Running", "0"),
        ),
        (
            "a sidecar counts",
            Harness::new(beside(), vec![instance("a-1", Running, 0), instance("x-2", Running, 0)]),
            ("2/2", "Running", "3"),
        ),
        (
            "a sidecar that crashes beside a container that runs",
            Harness::new(beside(), vec![instance("a-1", Running, 0), instance("x-2", Exited, 1)])
                .with_start_failure("x", "CrashLoopBackOff"),
            ("1/2", "Init:CrashLoopBackOff", "3 (11d ago)"),
        ),
    ];
    check(rows);
}

fn end(exit_code: i32, signal: Option<i32>) -> ContainerState {
    let end = ContainerStateTerminated { exit_code, signal, ..ContainerStateTerminated::default() };
    ContainerState { terminated: Some(end), ..ContainerState::default() }
}

fn with_containers(phase: &str, regular: Vec<ContainerStatus>) -> PodStatus {
    PodStatus {
        phase: Some(phase.to_owned()),
        container_statuses: Some(regular),
        ..PodStatus::default()
    }
}

#[test]
fn foreign_statuses_are_shown_like_kubectl() {
    let main = |state| vec![status("a", state)];
    let of_init = |state| PodStatus {
        init_container_statuses: Some(vec![status("x", state)]),
        ..with_containers("Pending", vec![])
    };
    let evicted =
        PodStatus { reason: Some("Evicted".to_owned()), ..with_containers("Failed", vec![]) };
    let gated = PodCondition {
        reason: Some("SchedulingGated".to_owned()),
        ..condition("PodScheduled", "False")
    };
    let gated = PodStatus { conditions: Some(vec![gated]), ..with_containers("Pending", vec![]) };
    let ready = PodStatus {
        conditions: Some(vec![condition("Ready", "True")]),
        ..with_containers("Running", vec![status("a", ended(0)), status("b", running(5))])
    };
    let lost =
        PodStatus { reason: Some("NodeLost".to_owned()), ..with_containers("Running", vec![]) };
    let plain = || pod("Always", &["a"]);
    let initial = || with_init(plain(), vec![container("x")]);
    let rows = vec![
        (plain(), PodStatus::default(), "Pending"),
        (plain(), with_containers("Running", main(end(3, None))), "ExitCode:3"),
        (plain(), with_containers("Running", main(end(0, None))), "ExitCode:0"),
        (plain(), with_containers("Running", main(end(137, Some(9)))), "Signal:9"),
        (plain(), with_containers("Pending", main(waiting(""))), "Pending"),
        (initial(), of_init(end(3, None)), "Init:ExitCode:3"),
        (initial(), of_init(end(137, Some(9))), "Init:Signal:9"),
        (initial(), of_init(waiting("")), "Init:0/1"),
        (plain(), evicted.clone(), "Evicted"),
        (plain(), gated, "SchedulingGated"),
        (plain(), ready, "Running"),
        (plain(), lost.clone(), "NodeLost"),
        (deleted(plain()), lost, "Unknown"),
        (deleted(plain()), evicted, "Evicted"),
        (deleted(plain()), with_containers("Succeeded", main(ended(0))), "Completed"),
    ];
    for (pod, status, expected) in rows {
        assert_eq!(line(&pod, &status).1, expected, "{status:?}");
    }
}

#[test]
fn terminated_sidecar_is_not_ready() {
    let pod = with_init(pod("Always", &["a"]), vec![sidecar("x")]);
    let says_ready = ContainerStatus { ready: true, started: Some(true), ..status("x", ended(0)) };
    let status = PodStatus {
        init_container_statuses: Some(vec![says_ready]),
        ..with_containers("Running", vec![status("a", running(5))])
    };
    assert_eq!(line(&pod, &status).0, "1/2");
}

#[test]
fn last_restart_is_the_latest_termination_of_any_container() {
    let ended_at = |name: &str, second: i64| {
        let mut last = ended(1);
        last.terminated.as_mut().unwrap().finished_at = Some(time(second));
        ContainerStatus {
            restart_count: 2,
            last_state: Some(last),
            ..status(name, running(second + 1))
        }
    };
    let both = with_containers("Running", vec![ended_at("a", NOW - 90), ended_at("b", NOW - 300)]);
    assert_eq!(line(&pod("Always", &["a", "b"]), &both).2, "4 (90s ago)");
}

#[test]
fn summary_names_pod_address_and_node() {
    let mut harness = Harness::new(pod("Always", &["a"]), vec![instance("a-0", Running, 0)]);
    let mut status = harness.status();
    status.start_time = Some(time(NOW - 123));
    let line = summary(&harness.pod, &status, at(NOW));
    assert_eq!((line.namespace.as_str(), line.name.as_str()), ("default", "web"));
    assert_eq!(line.age.to_string(), "2m3s", "a pod of a manifest exists since it started");
    assert_eq!(line.ip.as_deref(), Some("10.0.0.1"));
    assert_eq!(line.node.as_deref(), Some("node-1"));

    harness.pod.metadata.creation_timestamp = Some(time(NOW - 3 * 86_400));
    assert_eq!(summary(&harness.pod, &status, at(NOW)).age.to_string(), "3d");
    let unknown = summary(&pod("Always", &["a"]), &PodStatus::default(), at(NOW));
    assert_eq!((unknown.age.to_string().as_str(), unknown.ip), ("<unknown>", None));
}
