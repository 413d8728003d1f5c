//! Tests of container states.

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateTerminated, ContainerStatus, PodStatus,
};
use model::observed;
use model::observed::ContainerState::{Created, Exited, Running, Unknown};

use crate::decide::test_pods::{
    Harness, container, deleted, ended, instance, pod, running, sidecar, status, time, waiting,
    with_ephemeral, with_init,
};

/// A state as text: `waiting REASON`, `running`, `ended CODE REASON`.
fn text(state: Option<&ContainerState>) -> String {
    let Some(state) = state else { return "-".to_owned() };
    let word = |text: &Option<String>| text.as_deref().unwrap_or("-").to_owned();
    if let Some(waiting) = &state.waiting {
        format!("waiting {}", word(&waiting.reason))
    } else if let Some(end) = &state.terminated {
        format!("ended {} {}", end.exit_code, word(&end.reason))
    } else if state.running.is_some() {
        "running".to_owned()
    } else {
        "nothing".to_owned()
    }
}

fn shown(status: &ContainerStatus) -> (String, String, i32) {
    (text(status.state.as_ref()), text(status.last_state.as_ref()), status.restart_count)
}

/// The published status of the container `main` of a pod that has no other.
fn main_of(
    instances: Vec<observed::ContainerStatus>,
    old: Option<ContainerStatus>,
) -> ContainerStatus {
    let harness = Harness::new(pod("Always", &["main"]), instances);
    match old {
        Some(old) => harness.with_old(vec![old]).first(),
        None => harness.first(),
    }
}

fn old(state: ContainerState, restart_count: i32, id: Option<&str>) -> ContainerStatus {
    ContainerStatus {
        restart_count,
        container_id: id.map(|id| format!("containerd://{id}")),
        ..status("main", state)
    }
}

fn with_last(status: ContainerStatus, exit_code: i32) -> ContainerStatus {
    ContainerStatus { last_state: Some(ended(exit_code)), ..status }
}

#[test]
fn container_that_never_ran_waits_for_creation_or_init_containers() {
    let plain = Harness::new(pod("Always", &["main"]), vec![]);
    assert_eq!(shown(&plain.first()), ("waiting ContainerCreating".into(), "-".into(), 0));
    let with_init = with_init(pod("Always", &["main"]), vec![container("first")]);
    let harness = Harness::new(with_init, vec![]);
    assert_eq!(shown(&harness.first()), ("waiting PodInitializing".into(), "-".into(), 0));
    let status = harness.status();
    let init = &status.init_container_statuses.unwrap()[0];
    assert_eq!(shown(init), ("waiting PodInitializing".into(), "-".into(), 0));
}

#[test]
fn newest_instance_is_state_and_previous_one_is_last_state() {
    let rows = [
        ("made", vec![instance("main-0", Created, 0)], "waiting -", "-", 0),
        ("running", vec![instance("main-0", Running, 0)], "running", "-", 0),
        ("ended", vec![instance("main-0", Exited, 3)], "ended 3 Error", "-", 0),
        ("unknown from the start", vec![instance("main-0", Unknown, 0)], "waiting -", "-", 0),
        (
            "running again",
            vec![instance("main-1", Running, 0), instance("main-0", Exited, 1)],
            "running",
            "ended 1 Error",
            1,
        ),
        (
            "ended again",
            vec![
                instance("main-2", Exited, 0),
                instance("main-1", Exited, 1),
                instance("main-0", Exited, 2),
            ],
            "ended 0 Completed",
            "ended 1 Error",
            2,
        ),
        (
            "an earlier instance that has not terminated is not the last state",
            vec![instance("main-1", Running, 0), instance("main-0", Created, 0)],
            "running",
            "-",
            1,
        ),
        (
            "a late instance that never started is ignored while an earlier one runs",
            vec![
                instance("main-2", Created, 0),
                instance("main-1", Running, 0),
                instance("main-0", Exited, 1),
            ],
            "running",
            "ended 1 Error",
            1,
        ),
        (
            "a created instance is shown once the earlier one has terminated",
            vec![instance("main-1", Created, 0), instance("main-0", Exited, 1)],
            "waiting -",
            "ended 1 Error",
            1,
        ),
    ];
    for (what, instances, state, last, restarts) in rows {
        let found = shown(&main_of(instances, None));
        assert_eq!(found, (state.into(), last.into(), restarts), "{what}");
    }
}

/// The case, the instances, the previous status, and the published one.
type Remembered = (
    &'static str,
    Vec<observed::ContainerStatus>,
    ContainerStatus,
    (&'static str, &'static str, i32),
);

fn check_remembered<const N: usize>(rows: [Remembered; N]) {
    for (what, instances, old, (state, last, restarts)) in rows {
        let found = shown(&main_of(instances, Some(old)));
        assert_eq!(found, (state.into(), last.into(), restarts), "{what}");
    }
}

#[test]
fn previous_status_is_kept_for_a_missing_container() {
    let rows = [
        (
            "the termination stays until it runs again",
            vec![],
            old(ended(2), 1, Some("main-1")),
            ("ended 2 Error", "-", 1),
        ),
        (
            "vanished while running",
            vec![],
            old(running(21), 1, Some("main-1")),
            ("waiting ContainerCreating", "ended 137 ContainerStatusUnknown", 2),
        ),
        (
            "vanished while running, with an earlier end known",
            vec![],
            with_last(old(running(21), 1, Some("main-1")), 3),
            ("waiting ContainerCreating", "ended 3 Error", 1),
        ),
        (
            "waiting before and still nothing there",
            vec![],
            with_last(old(waiting("CrashLoopBackOff"), 4, None), 3),
            ("waiting ContainerCreating", "ended 3 Error", 4),
        ),
    ];
    check_remembered(rows);
}

#[test]
fn previous_status_fills_in_removed_instances() {
    let made = |id: &str| vec![instance(id, Running, 0)];
    let rows = [
        (
            "unknown while running",
            vec![instance("main-1", Unknown, 0)],
            old(running(21), 1, Some("main-1")),
            ("ended 137 ContainerStatusUnknown", "-", 2),
        ),
        (
            "unknown after it ended in the same instance",
            vec![instance("main-1", Unknown, 0)],
            old(ended(5), 2, Some("main-1")),
            ("ended 5 Error", "-", 2),
        ),
        (
            "unknown in an instance that was never seen",
            vec![instance("main-1", Unknown, 0)],
            old(ended(5), 0, Some("main-0")),
            ("waiting -", "ended 5 Error", 1),
        ),
        (
            "the end of a removed instance",
            made("main-1"),
            old(ended(5), 0, Some("main-0")),
            ("running", "ended 5 Error", 1),
        ),
        (
            "the last termination, while the instance is the same",
            made("main-1"),
            with_last(old(running(21), 1, Some("main-1")), 6),
            ("running", "ended 6 Error", 1),
        ),
        (
            "running although its end was assumed",
            made("main-1"),
            old(ended(137), 2, Some("main-1")),
            ("running", "-", 2),
        ),
        (
            "restarts of removed instances",
            made("main-0"),
            old(ended(5), 7, Some("main-7")),
            ("running", "ended 5 Error", 8),
        ),
        (
            "restarts, once counted",
            made("main-0"),
            with_last(old(running(21), 8, Some("main-0")), 5),
            ("running", "ended 5 Error", 8),
        ),
    ];
    check_remembered(rows);
}

#[test]
fn container_that_vanished_with_its_deleted_pod_has_no_restart() {
    let harness = Harness::new(deleted(pod("Always", &["main"])), vec![]).with_old(vec![old(
        running(21),
        1,
        Some("main-1"),
    )]);
    let expected = ("waiting ContainerCreating", "ended 137 ContainerStatusUnknown", 1);
    assert_eq!(shown(&harness.first()), (expected.0.into(), expected.1.into(), expected.2));
}

#[test]
fn start_failure_is_shown_for_a_container_that_will_start() {
    let rows = [
        ("never created", "Always", vec![], "waiting ErrImagePull", "-"),
        ("running", "Always", vec![instance("main-0", Running, 0)], "running", "-"),
        (
            "created, not started",
            "Never",
            vec![instance("main-0", Created, 0)],
            "waiting ErrImagePull",
            "-",
        ),
        (
            "terminated, becomes the last state",
            "Always",
            vec![instance("main-1", Exited, 2), instance("main-0", Exited, 1)],
            "waiting ErrImagePull",
            "ended 2 Error",
        ),
        ("ended for good", "Never", vec![instance("main-0", Exited, 2)], "ended 2 Error", "-"),
        ("succeeded", "OnFailure", vec![instance("main-0", Exited, 0)], "ended 0 Completed", "-"),
    ];
    for (what, policy, instances, state, last) in rows {
        let harness = Harness::new(pod(policy, &["main"]), instances)
            .with_start_failure("main", "ErrImagePull");
        let (found, found_last, _) = shown(&harness.first());
        assert_eq!((found.as_str(), found_last.as_str()), (state, last), "{what}");
    }
}

#[test]
fn every_reason_of_a_failed_start_is_shown_with_its_message() {
    let reasons = [
        "CrashLoopBackOff",
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "ImageInspectError",
        "CreateContainerConfigError",
        "PreCreateHookError",
        "CreateContainerError",
        "PreStartHookError",
        "RunContainerError",
        "PostStartHookError",
    ];
    for reason in reasons {
        let harness =
            Harness::new(pod("Always", &["main"]), vec![]).with_start_failure("main", reason);
        let waiting = harness.first().state.unwrap().waiting.unwrap();
        assert_eq!(waiting.reason.as_deref(), Some(reason));
        assert_eq!(waiting.message.as_deref(), Some("main did not start"));
    }
}

#[test]
fn resolved_start_failure_does_not_duplicate_the_termination() {
    let instances = vec![instance("main-1", Exited, 2)];
    let harness = Harness::new(pod("Always", &["main"]), instances);
    let failed = harness.clone().with_start_failure("main", "CrashLoopBackOff").status();
    let after = harness.with_previous(failed).first();
    assert_eq!(shown(&after), ("ended 2 Error".into(), "-".into(), 1));
}

#[test]
fn unobserved_end_is_stable() {
    let instances = vec![instance("main-1", Unknown, 0), instance("main-0", Exited, 4)];
    let mut harness = Harness::new(pod("Always", &["main"]), instances)
        .with_old(vec![old(running(21), 1, Some("main-1"))])
        .with_start_failure("main", "RunContainerError");
    for look in 0..3 {
        let status = harness.status();
        let found = shown(&status.container_statuses.as_ref().unwrap()[0]);
        let unseen = "ended 137 ContainerStatusUnknown";
        assert_eq!(found, ("waiting RunContainerError".into(), unseen.into(), 2), "look {look}");
        harness.previous = Some(status);
    }
    harness.start_failures.clear();
    let expected = ("ended 137 ContainerStatusUnknown".into(), "ended 4 Error".into(), 2);
    assert_eq!(shown(&harness.first()), expected);
}

// behaviour: STW-43
#[test]
fn unobserved_end_has_upstream_texts() {
    let unseen = |message: &str| ContainerStateTerminated {
        exit_code: 137,
        reason: Some("ContainerStatusUnknown".to_owned()),
        message: Some(message.to_owned()),
        ..ContainerStateTerminated::default()
    };
    let ran = || vec![old(running(21), 1, Some("main-1"))];
    let lost = Harness::new(pod("Always", &["main"]), vec![instance("main-1", Unknown, 0)]);
    let found = lost.with_old(ran()).first();
    let words = "The container could not be located when the pod was terminated";
    assert_eq!(found.state.unwrap().terminated, Some(unseen(words)));
    let found = Harness::new(pod("Always", &["main"]), vec![]).with_old(ran()).first();
    let words = "The container could not be located when the pod was deleted.  \
                 The container used to be Running";
    assert_eq!(found.last_state.unwrap().terminated, Some(unseen(words)));
    let pod = with_init(pod("Always", &["main"]), vec![container("first")]);
    let harness = Harness::new(pod, vec![instance("main-0", Running, 0)]);
    let found = harness.status().init_container_statuses.unwrap().remove(0);
    let end = found.state.unwrap().terminated.unwrap();
    let words = "Unable to get init container status from container runtime and pod has been \
                 initialized, treat it as exited normally";
    assert_eq!((end.message.as_deref(), end.container_id), (Some(words), None));
}

#[test]
fn missing_container_that_cannot_start_shows_only_its_last_termination() {
    let gone = ContainerStatus {
        image: "image:0".to_owned(),
        image_id: "sha256:0".to_owned(),
        ..old(ended(2), 3, Some("main-3"))
    };
    let harness = Harness::new(pod("Always", &["main"]), vec![])
        .with_old(vec![gone])
        .with_start_failure("main", "ErrImagePull");
    let found = harness.first();
    assert_eq!(shown(&found), ("waiting ErrImagePull".into(), "ended 2 Error".into(), 3));
    assert_eq!(found.container_id, None);
    assert_eq!((found.image.as_str(), found.image_id.as_str()), ("image:1", ""));
}

#[test]
fn init_container_with_created_successors_is_not_waiting() {
    let pod = with_init(pod("Always", &["main"]), vec![container("first")]);
    let harness = Harness::new(pod, vec![instance("main-0", Running, 0)])
        .with_start_failure("first", "ErrImagePull");
    let statuses = harness.status().init_container_statuses.unwrap();
    assert_eq!(shown(&statuses[0]).0, "ended 0 Completed");
}

#[test]
fn deleted_pod_has_no_waiting_containers() {
    let harness =
        Harness::new(deleted(pod("Always", &["main"])), vec![instance("main-0", Exited, 1)])
            .with_start_failure("main", "CrashLoopBackOff");
    assert_eq!(shown(&harness.first()).0, "ended 1 Error");
}

#[test]
fn missing_init_containers_are_inferred_from_later_ones() {
    let inits = || vec![container("first"), sidecar("beside")];
    let rows = [
        ("nothing ran", vec![], "waiting PodInitializing", "waiting PodInitializing"),
        (
            "a regular one runs",
            vec![instance("main-0", Running, 0)],
            "ended 0 Completed",
            "waiting PodInitializing",
        ),
        (
            "a regular one ended",
            vec![instance("main-0", Exited, 1)],
            "ended 0 Completed",
            "waiting PodInitializing",
        ),
        (
            "the regular one is unknown",
            vec![instance("main-0", Unknown, 0)],
            "waiting PodInitializing",
            "waiting PodInitializing",
        ),
    ];
    for (what, instances, first, beside) in rows {
        let harness = Harness::new(with_init(pod("Always", &["main"]), inits()), instances);
        let statuses = harness.status().init_container_statuses.unwrap();
        let found: Vec<_> = statuses.iter().map(|one| shown(one).0).collect();
        assert_eq!(found, [first, beside], "{what}");
    }
}

#[test]
fn known_init_container_end_is_not_overridden() {
    let inits = |instances, old| {
        let pod = with_init(pod("Always", &["main"]), vec![container("first")]);
        let previous = PodStatus { init_container_statuses: old, ..PodStatus::default() };
        let harness = Harness::new(pod, instances).with_previous(previous);
        harness.status().init_container_statuses.unwrap().remove(0)
    };
    let seen = vec![instance("main-0", Running, 0), instance("first-0", Exited, 0)];
    let end = inits(seen, None).state.unwrap().terminated.unwrap();
    assert_eq!(end.finished_at, Some(time(30)));
    let known = vec![status("first", ended(3))];
    let found = inits(vec![instance("main-0", Running, 0)], Some(known));
    assert_eq!(shown(&found).0, "ended 3 Error");
}

#[test]
fn succeeded_init_container_is_not_waiting_and_sidecar_is() {
    let inits = vec![container("first"), sidecar("beside")];
    let instances = vec![instance("first-0", Exited, 0), instance("beside-0", Exited, 0)];
    let harness = Harness::new(with_init(pod("Always", &["main"]), inits), instances)
        .with_start_failure("first", "CrashLoopBackOff")
        .with_start_failure("beside", "CrashLoopBackOff");
    let statuses = harness.status().init_container_statuses.unwrap();
    let found: Vec<_> = statuses.iter().map(|one| shown(one).0).collect();
    assert_eq!(found, ["ended 0 Completed", "waiting CrashLoopBackOff"]);
}

#[test]
fn running_container_is_started_and_ready() {
    let inits = vec![container("done"), container("works"), sidecar("beside")];
    let pod = with_ephemeral(with_init(pod("Never", &["a", "b"]), inits), &["look"]);
    let instances = vec![
        instance("a-0", Running, 0),
        instance("b-0", Exited, 0),
        instance("look-0", Running, 0),
        instance("done-0", Exited, 0),
        instance("works-0", Running, 0),
        instance("beside-0", Running, 0),
    ];
    let status = Harness::new(pod, instances).status();
    let all = [
        status.init_container_statuses,
        status.container_statuses,
        status.ephemeral_container_statuses,
    ];
    let found: Vec<_> =
        all.into_iter().flatten().flatten().map(|one| (one.name, one.started, one.ready)).collect();
    let expected = [
        ("done", Some(false), true),
        ("works", Some(true), false),
        ("beside", Some(true), true),
        ("a", Some(true), true),
        ("b", Some(false), false),
        ("look", None, false),
    ];
    assert_eq!(found, expected.map(|(name, started, ready)| (name.to_owned(), started, ready)));
}

#[test]
fn regular_and_ephemeral_containers_are_listed_by_name_and_init_containers_in_order() {
    let inits = vec![container("z"), container("y")];
    let pod = with_ephemeral(with_init(pod("Always", &["c", "a", "b"]), inits), &["f", "e"]);
    let status = Harness::new(pod, vec![]).status();
    let names = |list: Option<Vec<ContainerStatus>>| -> Vec<String> {
        list.unwrap().into_iter().map(|one| one.name).collect()
    };
    assert_eq!(names(status.container_statuses), ["a", "b", "c"]);
    assert_eq!(names(status.init_container_statuses), ["z", "y"]);
    assert_eq!(names(status.ephemeral_container_statuses), ["e", "f"]);
}

#[test]
fn ids_images_and_times_are_those_of_the_instance() {
    let found = main_of(vec![instance("main-2", Exited, 1)], None);
    assert_eq!(found.container_id.as_deref(), Some("containerd://main-2"));
    assert_eq!((found.image.as_str(), found.image_id.as_str()), ("image:1", "sha256:1"));
    let end = found.state.unwrap().terminated.unwrap();
    assert_eq!(end.container_id.as_deref(), Some("containerd://main-2"));
    assert_eq!((end.started_at, end.finished_at), (Some(time(21)), Some(time(30))));
    let found = main_of(vec![], None);
    assert_eq!((found.container_id, found.image.as_str()), (None, "image:1"));
}

#[test]
fn invalid_restart_count_counts_as_zero() {
    for text in ["", "many", "-3", "99999999999"] {
        let mut made = instance("main-0", Running, 0);
        made.annotations.values_mut().for_each(|count| text.clone_into(count));
        assert_eq!(main_of(vec![made], None).restart_count, 0, "{text:?}");
    }
}

#[test]
fn api_status_is_the_previous_one_when_there_is_no_other() {
    let mut shown_by_api = pod("Always", &["main"]);
    let old = vec![old(ended(2), 3, Some("main-3"))];
    shown_by_api.status = Some(PodStatus { container_statuses: Some(old), ..PodStatus::default() });
    assert_eq!(shown(&Harness::new(shown_by_api, vec![]).first()).2, 3);
}

// behaviour: WHY-10
#[test]
fn reported_message_of_a_terminated_instance_is_kept() {
    let message = |state: Option<&ContainerState>| state?.terminated.as_ref()?.message.clone();
    let killed = observed::ContainerStatus {
        message: "failed liveness probe".into(),
        ..instance("main-0", Exited, 137)
    };
    let silent = instance("main-0", Exited, 137);
    let first = main_of(vec![killed], None);
    assert_eq!(message(first.state.as_ref()).as_deref(), Some("failed liveness probe"));
    // A restarted agent does not know the message.
    let second = main_of(vec![silent.clone()], Some(first.clone()));
    assert_eq!(second.state, first.state);
    let next = main_of(vec![instance("main-1", Running, 0), silent.clone()], Some(second));
    assert_eq!(message(next.last_state.as_ref()).as_deref(), Some("failed liveness probe"));
    let later = main_of(vec![instance("main-1", Running, 0), silent], Some(next.clone()));
    assert_eq!(later.last_state, next.last_state);
    // The message belongs to that instance.
    let ended = main_of(vec![instance("main-1", Exited, 1)], Some(later));
    assert_eq!(message(ended.state.as_ref()), None);
}
