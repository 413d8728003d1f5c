//! Lines as `kubectl get pods` prints them.

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodCondition, PodStatus,
};
use model::observed::ContainerState::{Created, Exited, Running};

use crate::decide::summary;
use crate::decide::test_pods::{
    NOW, World, at, condition, container, deleted, ended, instance, pod, running, sidecar, status,
    time, waiting, with_init,
};

fn line(pod: &Pod, status: &PodStatus) -> (String, String, String) {
    let line = summary(pod, status, at(NOW));
    (line.ready, line.status, line.restarts.to_string())
}

/// What the row is about, what the status is made of, and ready, status and restarts of its line.
type Row = (&'static str, World, (&'static str, &'static str, &'static str));

fn check(rows: Vec<Row>) {
    for (what, world, (ready, word, restarts)) in rows {
        let found = line(&world.pod, &world.status());
        assert_eq!(found, (ready.into(), word.into(), restarts.into()), "{what}");
    }
}

#[test]
fn what_happens_to_a_pod_is_told_in_one_word() {
    let one = || pod("Always", &["a"]);
    let two = |policy| pod(policy, &["a", "b"]);
    let run = |id| instance(id, Running, 0);
    let rows = vec![
        ("new", World::new(one(), vec![]), ("0/1", "ContainerCreating", "0")),
        ("made", World::new(one(), vec![instance("a-0", Created, 0)]), ("0/1", "Pending", "0")),
        ("running", World::new(one(), vec![run("a-0")]), ("1/1", "Running", "0")),
        (
            "a bad image",
            World::new(one(), vec![]).with_start_failure("a", "ErrImagePull"),
            ("0/1", "ErrImagePull", "0"),
        ),
        (
            "crashing",
            World::new(one(), vec![instance("a-4", Exited, 1)])
                .with_start_failure("a", "CrashLoopBackOff"),
            ("0/1", "CrashLoopBackOff", "4 (11d ago)"),
        ),
        (
            "one crashing beside one that runs",
            World::new(two("Always"), vec![run("a-0"), instance("b-4", Exited, 1)])
                .with_start_failure("b", "CrashLoopBackOff"),
            ("1/2", "CrashLoopBackOff", "4 (11d ago)"),
        ),
        (
            "two that cannot start",
            World::new(two("Always"), vec![])
                .with_start_failure("a", "ErrImagePull")
                .with_start_failure("b", "CreateContainerError"),
            ("0/2", "ErrImagePull", "0"),
        ),
    ];
    check(rows);
}

#[test]
fn the_end_of_a_pod_is_told_in_one_word() {
    let one = || pod("Always", &["a"]);
    let two = |policy| pod(policy, &["a", "b"]);
    let run = |id| instance(id, Running, 0);
    let rows = vec![
        (
            "ended, about to run again",
            World::new(one(), vec![instance("a-1", Exited, 1)]),
            ("0/1", "Error", "1"),
        ),
        (
            "all done",
            World::new(pod("Never", &["a"]), vec![instance("a-0", Exited, 0)]),
            ("0/1", "Completed", "0"),
        ),
        (
            "failed",
            World::new(pod("Never", &["a"]), vec![instance("a-0", Exited, 2)]),
            ("0/1", "Error", "0"),
        ),
        (
            "the first one done, the other runs",
            World::new(two("Never"), vec![instance("a-0", Exited, 0), run("b-0")]),
            ("1/2", "NotReady", "0"),
        ),
        (
            "the first one done, the other failed",
            World::new(two("Never"), vec![instance("a-0", Exited, 0), instance("b-0", Exited, 1)]),
            ("0/2", "Error", "0"),
        ),
        ("going", World::new(deleted(one()), vec![run("a-0")]), ("1/1", "Terminating", "0")),
    ];
    check(rows);
}

#[test]
fn init_containers_are_told_of_until_they_are_done() {
    let plain = || with_init(pod("Always", &["a"]), vec![container("x"), container("y")]);
    let beside = || with_init(pod("Always", &["a"]), vec![sidecar("x")]);
    let rows = vec![
        ("nothing ran", World::new(plain(), vec![]), ("0/1", "Init:0/2", "0")),
        (
            "the second runs",
            World::new(plain(), vec![instance("x-0", Exited, 0), instance("y-0", Running, 0)]),
            ("0/1", "Init:1/2", "0"),
        ),
        (
            "the first failed",
            World::new(plain(), vec![instance("x-3", Exited, 1)]),
            ("0/1", "Init:Error", "3"),
        ),
        (
            "the first crashes",
            World::new(plain(), vec![instance("x-3", Exited, 1)])
                .with_start_failure("x", "CrashLoopBackOff"),
            ("0/1", "Init:CrashLoopBackOff", "3 (11d ago)"),
        ),
        (
            "all done, the rest is to come",
            World::new(plain(), vec![instance("x-0", Exited, 0), instance("y-0", Exited, 0)]),
            ("0/1", "PodInitializing", "0"),
        ),
        (
            "restarts before do not count when it runs",
            World::new(
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
            World::new(beside(), vec![instance("a-1", Running, 0), instance("x-2", Running, 0)]),
            ("2/2", "Running", "3"),
        ),
        (
            "a sidecar that crashes beside a container that runs",
            World::new(beside(), vec![instance("a-1", Running, 0), instance("x-2", Exited, 1)])
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

fn told(phase: &str, regular: Vec<ContainerStatus>) -> PodStatus {
    PodStatus {
        phase: Some(phase.to_owned()),
        container_statuses: Some(regular),
        ..PodStatus::default()
    }
}

#[test]
fn statuses_that_others_wrote_are_told_as_kubectl_tells_them() {
    let main = |state| vec![status("a", state)];
    let of_init = |state| PodStatus {
        init_container_statuses: Some(vec![status("x", state)]),
        ..told("Pending", vec![])
    };
    let evicted = PodStatus { reason: Some("Evicted".to_owned()), ..told("Failed", vec![]) };
    let gated = PodCondition {
        reason: Some("SchedulingGated".to_owned()),
        ..condition("PodScheduled", "False")
    };
    let gated = PodStatus { conditions: Some(vec![gated]), ..told("Pending", vec![]) };
    let ready = PodStatus {
        conditions: Some(vec![condition("Ready", "True")]),
        ..told("Running", vec![status("a", ended(0)), status("b", running(5))])
    };
    let lost = PodStatus { reason: Some("NodeLost".to_owned()), ..told("Running", vec![]) };
    let plain = || pod("Always", &["a"]);
    let initial = || with_init(plain(), vec![container("x")]);
    let rows = vec![
        (plain(), PodStatus::default(), "Pending"),
        (plain(), told("Running", main(end(3, None))), "ExitCode:3"),
        (plain(), told("Running", main(end(0, None))), "ExitCode:0"),
        (plain(), told("Running", main(end(137, Some(9)))), "Signal:9"),
        (plain(), told("Pending", main(waiting(""))), "Pending"),
        (initial(), of_init(end(3, None)), "Init:ExitCode:3"),
        (initial(), of_init(end(137, Some(9))), "Init:Signal:9"),
        (initial(), of_init(waiting("")), "Init:0/1"),
        (plain(), evicted.clone(), "Evicted"),
        (plain(), gated, "SchedulingGated"),
        (plain(), ready, "Running"),
        (plain(), lost.clone(), "NodeLost"),
        (deleted(plain()), lost, "Unknown"),
        (deleted(plain()), evicted, "Evicted"),
        (deleted(plain()), told("Succeeded", main(ended(0))), "Completed"),
    ];
    for (pod, status, expected) in rows {
        assert_eq!(line(&pod, &status).1, expected, "{status:?}");
    }
}

#[test]
fn a_sidecar_that_ended_is_not_ready_whatever_its_status_says() {
    let pod = with_init(pod("Always", &["a"]), vec![sidecar("x")]);
    let says_ready = ContainerStatus { ready: true, started: Some(true), ..status("x", ended(0)) };
    let status = PodStatus {
        init_container_statuses: Some(vec![says_ready]),
        ..told("Running", vec![status("a", running(5))])
    };
    assert_eq!(line(&pod, &status).0, "1/2");
}

#[test]
fn the_latest_end_of_any_container_is_the_last_restart() {
    let ended_at = |name: &str, second: i64| {
        let mut last = ended(1);
        last.terminated.as_mut().unwrap().finished_at = Some(time(second));
        ContainerStatus {
            restart_count: 2,
            last_state: Some(last),
            ..status(name, running(second + 1))
        }
    };
    let both = told("Running", vec![ended_at("a", NOW - 90), ended_at("b", NOW - 300)]);
    assert_eq!(line(&pod("Always", &["a", "b"]), &both).2, "4 (90s ago)");
}

#[test]
fn the_rest_of_the_line_names_the_pod_and_its_place() {
    let mut world = World::new(pod("Always", &["a"]), vec![instance("a-0", Running, 0)]);
    let mut status = world.status();
    status.start_time = Some(time(NOW - 123));
    let line = summary(&world.pod, &status, at(NOW));
    assert_eq!((line.namespace.as_str(), line.name.as_str()), ("default", "web"));
    assert_eq!(line.age.to_string(), "2m3s", "a pod of a manifest exists since it started");
    assert_eq!(line.ip.as_deref(), Some("10.0.0.1"));
    assert_eq!(line.node.as_deref(), Some("node-1"));

    world.pod.metadata.creation_timestamp = Some(time(NOW - 3 * 86_400));
    assert_eq!(summary(&world.pod, &status, at(NOW)).age.to_string(), "3d");
    let unknown = summary(&pod("Always", &["a"]), &PodStatus::default(), at(NOW));
    assert_eq!((unknown.age.to_string().as_str(), unknown.ip), ("<unknown>", None));
}
