//! Tests of conditions.

use k8s_openapi::api::core::v1::{
    Container, ContainerRestartRule, ContainerRestartRuleOnExitCodes, PodCondition,
    PodReadinessGate, PodStatus,
};
use model::admission::PendingResize;
use model::observed::ContainerState::{Created, Exited, Running};
use model::observed::SandboxState::{NotReady, Ready};
use model::pod_failure::PodFailure;

use crate::decide::container_statuses::Containers;
use crate::decide::test_pods::{
    Harness, NOW, at, condition, container, find, instance, pod, sandbox, sidecar, time, with_init,
};
use crate::decide::{Phase, conditions};

/// A condition as text: `True`, `False REASON`, `False REASON: MESSAGE`, or `-` without one.
fn condition_text(status: &PodStatus, type_: &str) -> String {
    let Some(found) = find(status, type_) else { return "-".to_owned() };
    let mut text = found.status.clone();
    if let Some(reason) = &found.reason {
        text = format!("{text} {reason}");
    }
    if let Some(message) = &found.message {
        text = format!("{text}: {message}");
    }
    text
}

fn old_condition(status: &str) -> PodStatus {
    let conditions = ["Initialized", "Ready", "ContainersReady", "PodScheduled"];
    PodStatus {
        conditions: Some(conditions.map(|type_| condition(type_, status)).into()),
        ..PodStatus::default()
    }
}

#[test]
fn pod_with_usable_sandbox_is_ready_to_start_containers() {
    let harness = |change: &dyn Fn(&mut Harness)| {
        let mut harness = Harness::new(pod("Always", &["a"]), vec![]);
        change(&mut harness);
        condition_text(&harness.status(), "PodReadyToStartContainers")
    };
    let host_network = |harness: &mut Harness| {
        harness.pod.spec.as_mut().unwrap().host_network = Some(true);
    };
    assert_eq!(harness(&|_| {}), "True");
    assert_eq!(harness(&|harness| harness.observed.sandboxes.clear()), "False");
    let just_made = |harness: &mut Harness| {
        harness.observed.sandboxes.clear();
        harness.has_new_sandbox = true;
    };
    assert_eq!(harness(&just_made), "True");
    assert_eq!(harness(&|harness| harness.observed.sandboxes[0].state = NotReady), "False");
    // Another live sandbox matters only if a container was created in it.
    assert_eq!(harness(&|harness| harness.observed.sandboxes.push(sandbox(Ready))), "True");
    let used = |harness: &mut Harness| {
        let mut instance = instance("a-0", Running, 0);
        let other = sandbox(Ready);
        instance.sandbox_id = other.id.clone();
        harness.observed.containers.push(instance);
        harness.observed.sandboxes.push(other);
    };
    assert_eq!(harness(&used), "False");
    assert_eq!(harness(&|harness| harness.observed.sandboxes.push(sandbox(NotReady))), "True");
    assert_eq!(harness(&|harness| harness.observed.sandboxes[0].ips.clear()), "False");
    assert_eq!(harness(&host_network), "False");
    let on_host = |harness: &mut Harness| {
        host_network(harness);
        harness.observed.sandboxes[0].host_network = true;
        harness.observed.sandboxes[0].ips.clear();
    };
    assert_eq!(harness(&on_host), "True");
}

#[test]
fn pod_is_initialized_when_init_containers_completed() {
    let inits = || vec![container("first"), sidecar("beside")];
    let incomplete = |names: &str| {
        format!("False ContainersNotInitialized: containers with incomplete status: [{names}]")
    };
    let rows = [
        ("nothing ran", vec![], incomplete("first beside")),
        ("the first runs", vec![instance("first-0", Running, 0)], incomplete("first beside")),
        ("the first is done", vec![instance("first-0", Exited, 0)], incomplete("beside")),
        (
            "the sidecar was made",
            vec![instance("first-0", Exited, 0), instance("beside-0", Created, 0)],
            incomplete("beside"),
        ),
        (
            "the sidecar has started",
            vec![instance("first-0", Exited, 0), instance("beside-0", Running, 0)],
            "True".to_owned(),
        ),
        ("a regular one runs", vec![instance("main-0", Running, 0)], "True".to_owned()),
        ("a regular one ended", vec![instance("main-0", Exited, 1)], "True".to_owned()),
        (
            "the pod succeeded",
            vec![
                instance("first-0", Exited, 0),
                instance("beside-0", Exited, 0),
                instance("main-0", Exited, 0),
            ],
            "True PodCompleted".to_owned(),
        ),
    ];
    for (what, instances, expected) in rows {
        let pod = with_init(pod("Never", &["main"]), inits());
        let status = Harness::new(pod, instances).status();
        assert_eq!(condition_text(&status, "Initialized"), expected, "{what}");
    }
    let without = Harness::new(pod("Always", &["main"]), vec![]).status();
    assert_eq!(condition_text(&without, "Initialized"), "True");
}

#[test]
fn initialized_pod_stays_initialized() {
    let pod = with_init(pod("Always", &["main"]), vec![container("first")]);
    let harness = Harness::new(pod, vec![]);
    assert_eq!(condition_text(&harness.status(), "Initialized").split(' ').next(), Some("False"));
    let harness = harness.with_previous(old_condition("True"));
    assert_eq!(condition_text(&harness.status(), "Initialized"), "True");
}

#[test]
fn containers_are_ready_when_all_regular_containers_and_sidecars_are() {
    let unready = |names: &str| {
        format!("False ContainersNotReady: containers with unready status: [{names}]")
    };
    let all = |code| vec![instance("a-0", Exited, code), instance("b-0", Exited, 0)];
    let rows = [
        ("Always", vec![], unready("beside a b")),
        ("Always", vec![instance("a-0", Running, 0)], unready("beside b")),
        (
            "Always",
            vec![instance("a-0", Running, 0), instance("b-0", Running, 0)],
            unready("beside"),
        ),
        (
            "Always",
            vec![
                instance("a-0", Running, 0),
                instance("b-0", Running, 0),
                instance("beside-0", Running, 0),
            ],
            "True".to_owned(),
        ),
        (
            "Never",
            [all(0), vec![instance("beside-0", Exited, 0)]].concat(),
            "False PodCompleted".to_owned(),
        ),
        (
            "Never",
            [all(1), vec![instance("beside-0", Exited, 0)]].concat(),
            "False PodFailed".to_owned(),
        ),
    ];
    for (policy, instances, expected) in rows {
        let pod = with_init(pod(policy, &["a", "b"]), vec![sidecar("beside")]);
        let status = Harness::new(pod, instances).status();
        assert_eq!(condition_text(&status, "ContainersReady"), expected);
        assert_eq!(condition_text(&status, "Ready"), expected);
    }
}

#[test]
fn failed_pod_is_not_ready_while_containers_still_run() {
    let harness = Harness::new(pod("Always", &["a"]), vec![instance("a-0", Running, 0)])
        .with_previous(PodStatus { phase: Some("Failed".to_owned()), ..PodStatus::default() });
    assert_eq!(condition_text(&harness.status(), "Ready"), "False PodFailed");
}

#[test]
fn unknown_container_statuses_are_not_ready_and_not_initialized() {
    let harness = Harness::new(with_init(pod("Always", &["a"]), vec![container("first")]), vec![]);
    let with = |containers: &Containers| PodStatus {
        conditions: Some(conditions(&harness.input(), Phase::Pending, containers)),
        ..PodStatus::default()
    };
    let nothing = with(&Containers::default());
    for type_ in ["Initialized", "ContainersReady", "Ready"] {
        assert_eq!(condition_text(&nothing, type_), "False UnknownContainerStatuses", "{type_}");
    }
    let waits = crate::decide::test_pods::waiting("PodInitializing");
    let one = crate::decide::test_pods::status("another", waits);
    let alien = with(&Containers { regular: vec![one], ..Containers::default() });
    assert_eq!(
        condition_text(&alien, "Initialized"),
        "False ContainersNotInitialized: containers with unknown status: [first]"
    );
    assert_eq!(
        condition_text(&alien, "ContainersReady"),
        "False ContainersNotReady: containers with unknown status: [a]"
    );
}

#[test]
fn readiness_gates_affect_the_pod_and_not_its_containers() {
    let gate = |name: &str| PodReadinessGate { condition_type: name.to_owned() };
    let rows = [
        (
            None,
            "False ReadinessGatesNotReady: corresponding condition of pod readiness gate \"ex.io/up\" does not exist.",
        ),
        (
            Some("False"),
            "False ReadinessGatesNotReady: the status of pod readiness gate \"ex.io/up\" is not \"True\", but False",
        ),
        (Some("True"), "True"),
    ];
    for (says_gate, expected) in rows {
        let mut harness = Harness::new(pod("Always", &["a"]), vec![instance("a-0", Running, 0)]);
        harness.pod.spec.as_mut().unwrap().readiness_gates = Some(vec![gate("ex.io/up")]);
        harness.pod.status = Some(PodStatus {
            conditions: says_gate.map(|condition_text| vec![condition("ex.io/up", condition_text)]),
            ..PodStatus::default()
        });
        let status = harness.status();
        assert_eq!(condition_text(&status, "Ready"), expected);
        assert_eq!(condition_text(&status, "ContainersReady"), "True");
    }
}

#[test]
fn pod_on_a_node_is_scheduled() {
    let harness = Harness::new(pod("Always", &["a"]), vec![]);
    assert_eq!(condition_text(&harness.status(), "PodScheduled"), "True");
}

/// A container whose exit with 7 restarts all containers.
fn requesting(name: &str) -> Container {
    let rule = ContainerRestartRule {
        action: "RestartAllContainers".to_owned(),
        exit_codes: Some(ContainerRestartRuleOnExitCodes {
            operator: "In".to_owned(),
            values: Some(vec![7]),
        }),
    };
    Container {
        restart_policy: Some("Never".to_owned()),
        restart_policy_rules: Some(vec![rule]),
        ..container(name)
    }
}

const RESTARTING: &str =
    "True RestartAllContainersStarted: container exited with restart policy rule";

#[test]
fn restart_of_all_lasts_from_the_matching_exit_until_no_instance_is_left() {
    let ruled = || {
        let mut pod = pod("Never", &["a", "b"]);
        pod.spec.as_mut().unwrap().containers[0] = requesting("a");
        pod
    };
    let b = || instance("b-0", Running, 0);
    let rows = [
        ("both run", vec![instance("a-0", Running, 0), b()], "False", "False"),
        ("the exit", vec![instance("a-0", Exited, 7), b()], "False", RESTARTING),
        ("another exit", vec![instance("a-0", Exited, 1), b()], "False", "False"),
        ("one is left", vec![b()], "True", RESTARTING),
        ("none is left", vec![], "True", "False"),
        (
            "it failed",
            vec![instance("a-0", Exited, 1), instance("b-0", Exited, 0)],
            "True",
            "False PodFailed",
        ),
        (
            "it succeeded",
            vec![instance("a-0", Exited, 0), instance("b-0", Exited, 0)],
            "True",
            "False PodCompleted",
        ),
    ];
    for (what, instances, before, expected) in rows {
        let before = condition("AllContainersRestarting", before);
        let previous = PodStatus { conditions: Some(vec![before.clone()]), ..PodStatus::default() };
        let mut harness = Harness::new(ruled(), instances).with_previous(previous.clone());
        harness.pod.metadata.generation = Some(3);
        let status = harness.status();
        assert_eq!(condition_text(&status, "AllContainersRestarting"), expected, "{what}");
        let found = find(&status, "AllContainersRestarting").unwrap();
        assert_eq!(found.observed_generation, None);
        let unruled = Harness::new(pod("Never", &["a", "b"]), vec![b()]).with_previous(previous);
        assert_eq!(condition_text(&unruled.status(), "AllContainersRestarting"), "-");
    }
}

// behaviour: ACT-55
#[test]
fn init_container_exit_may_restart_all() {
    let beside = || instance("beside-0", Running, 0);
    let rows = [
        ("it runs", vec![beside(), instance("first-0", Running, 0)], "False", "False"),
        ("the exit", vec![beside(), instance("first-0", Exited, 7)], "False", RESTARTING),
        ("the exit alone", vec![instance("first-0", Exited, 7)], "True", RESTARTING),
        ("the sidecar is left", vec![beside()], "True", RESTARTING),
        ("none is left", vec![], "True", "False"),
        (
            "another exit",
            vec![beside(), instance("first-0", Exited, 1)],
            "False",
            "False PodFailed",
        ),
    ];
    for (what, instances, before, expected) in rows {
        let pod = with_init(pod("Never", &["a"]), vec![sidecar("beside"), requesting("first")]);
        let conditions = Some(vec![condition("AllContainersRestarting", before)]);
        let previous = PodStatus { conditions, ..PodStatus::default() };
        let status = Harness::new(pod, instances).with_previous(previous).status();
        assert_eq!(condition_text(&status, "AllContainersRestarting"), expected, "{what}");
    }
}

#[test]
fn transition_time_is_kept_while_status_is_unchanged() {
    let mut harness = Harness::new(pod("Always", &["a"]), vec![instance("a-0", Running, 0)]);
    let since = |harness: &Harness, type_: &str| {
        find(&harness.status(), type_).unwrap().last_transition_time.clone().unwrap()
    };
    assert_eq!(since(&harness, "Ready"), time(NOW));
    harness.previous = Some(old_condition("True"));
    assert_eq!(since(&harness, "Ready"), time(5));
    harness.previous = Some(old_condition("False"));
    assert_eq!(since(&harness, "Ready"), time(NOW));
    harness.previous = None;
    harness.pod.status = Some(old_condition("True"));
    assert_eq!(since(&harness, "Ready"), time(5), "the API's status is used after a restart");
}

#[test]
fn conditions_have_observed_generation() {
    for (generation, expected) in [(Some(4), Some(4)), (Some(0), None), (None, None)] {
        let mut harness = Harness::new(pod("Always", &["a"]), vec![]);
        harness.pod.metadata.generation = generation;
        let conditions = harness.status().conditions.unwrap();
        assert_eq!(conditions.len(), 5);
        for condition in conditions {
            assert_eq!(condition.observed_generation, expected, "{}", condition.type_);
        }
    }
}

#[test]
fn foreign_conditions_are_kept_and_come_first() {
    let foreign =
        || PodCondition { message: Some("mine".to_owned()), ..condition("ex.io/up", "Unknown") };
    let of_status = |conditions: Vec<PodCondition>| {
        Some(PodStatus { conditions: Some(conditions), ..PodStatus::default() })
    };
    let own =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
    let types = |status: &PodStatus| -> Vec<String> {
        status.conditions.iter().flatten().map(|one| one.type_.clone()).collect()
    };
    let leftover = || condition("PodResizePending", "True");
    let mut harness = Harness::new(pod("Always", &["a"]), vec![]);
    harness.pod.status = of_status(vec![condition("Ready", "True"), leftover(), foreign()]);
    assert_eq!(types(&harness.status()), [&["ex.io/up"], &own[..]].concat());
    assert_eq!(find(&harness.status(), "ex.io/up"), Some(&foreign()));

    harness.previous = of_status(vec![condition("ex.io/gone", "True"), condition("Ready", "True")]);
    assert_eq!(
        types(&harness.status()),
        [&["ex.io/up"], &own[..]].concat(),
        "the API's conditions are kept"
    );
    harness.pod.status = None;
    assert_eq!(types(&harness.status()), [&["ex.io/gone"], &own[..]].concat());

    harness.previous = of_status(vec![condition("DisruptionTarget", "True")]);
    harness.pod.status = of_status(vec![foreign(), condition("DisruptionTarget", "False")]);
    let found = harness.status();
    assert_eq!(types(&found), [&["ex.io/up", "DisruptionTarget"], &own[..]].concat());
    assert_eq!(condition_text(&found, "DisruptionTarget"), "True");
}

// behaviour: ADM-19
#[test]
fn preempted_pod_keeps_its_disruption_target_condition() {
    let mut harness = Harness::new(pod("Always", &["a"]), vec![]);
    harness.failure = Some(PodFailure {
        reason: "Preempting",
        message: "make room".to_owned(),
        disruption: Some("for a critical pod".into()),
    });
    let status = harness.status();
    let condition = find(&status, "DisruptionTarget").expect("the condition").clone();
    assert_eq!((condition.status.as_str(), status.phase.as_deref()), ("True", Some("Failed")));
    assert_eq!(condition.reason.as_deref(), Some("TerminationByKubelet"));
    assert_eq!(condition.message.as_deref(), Some("for a critical pod"));
    harness.previous = Some(status);
    harness.failure = None;
    harness.stopped_for_good = true;
    let later = harness.status();
    assert_eq!(find(&later, "DisruptionTarget"), Some(&condition));
    assert_eq!(later.reason.as_deref(), Some("Preempting"));
    assert_eq!(later.message.as_deref(), Some("make room"));
}

// behaviour: RSZ-21
#[test]
fn resize_conditions_are_published_until_the_resize_is_over() {
    let waits = |infeasible| Some(PendingResize { infeasible, message: "no room".to_owned() });
    let mut harness = Harness::new(pod("Always", &["a"]), vec![]);
    harness.pending = waits(false);
    let first = harness.status();
    let condition = find(&first, "PodResizePending").expect("the condition").clone();
    assert_eq!(
        (condition.status.as_str(), condition.reason.as_deref()),
        ("True", Some("Deferred"))
    );
    assert_eq!(condition.message.as_deref(), Some("no room"));
    assert!(find(&first, "PodResizeInProgress").is_none());
    // An equal condition keeps its time; another reason changes it.
    harness.previous = Some(first.clone());
    harness.now = at(NOW + 5);
    assert_eq!(harness.status(), first);
    harness.pending = waits(true);
    let condition = find(&harness.status(), "PodResizePending").expect("the condition").clone();
    assert_eq!(condition.reason.as_deref(), Some("Infeasible"));
    assert_eq!(condition.last_transition_time, Some(time(NOW + 5)));
    harness.pending = None;
    harness.resizes = true;
    let goes_on = harness.status();
    assert!(find(&goes_on, "PodResizePending").is_none());
    let condition = find(&goes_on, "PodResizeInProgress").expect("the condition");
    assert_eq!((condition.status.as_str(), condition.reason.as_deref()), ("True", None));
    harness.resize_error = Some("it uses more");
    let stuck = harness.status();
    let condition = find(&stuck, "PodResizeInProgress").expect("the condition");
    assert_eq!(condition.reason.as_deref(), Some("Error"));
    assert_eq!(condition.message.as_deref(), Some("it uses more"));
    // A terminal pod has no pending resize.
    harness.previous = Some(stuck);
    harness.failure =
        Some(PodFailure { reason: "Evicted", message: "over".to_owned(), disruption: None });
    let over = harness.status();
    assert!(find(&over, "PodResizeInProgress").is_none(), "{over:?}");
    harness.failure = None;
    (harness.resizes, harness.resize_error) = (false, None);
    harness.previous = None;
    assert!(find(&harness.status(), "PodResizeInProgress").is_none());
}

#[test]
fn resize_in_progress_keeps_its_generation_until_cleared() {
    let generation = |harness: &Harness, type_: &str| {
        find(&harness.status(), type_).and_then(|condition| condition.observed_generation)
    };
    let mut harness = Harness::new(pod("Always", &["a"]), vec![]);
    harness.pod.metadata.generation = Some(3);
    harness.resizes = true;
    harness.previous = Some(harness.status());
    // Another resize is pending meanwhile.
    harness.pod.metadata.generation = Some(4);
    harness.pending = Some(PendingResize { infeasible: false, message: "no room".to_owned() });
    assert_eq!(generation(&harness, "PodResizeInProgress"), Some(3));
    assert_eq!(generation(&harness, "PodResizePending"), Some(4));
    harness.resizes = false;
    harness.previous = Some(harness.status());
    harness.resizes = true;
    assert_eq!(generation(&harness, "PodResizeInProgress"), Some(4));
}

// behaviour: RSZ-25
#[test]
fn next_agent_restores_the_resize_state() {
    use podspec::{ReportedResize, reported_resize};
    let mut harness = Harness::new(pod("Always", &["main"]), vec![]);
    assert_eq!(reported_resize(None), ReportedResize::default());
    assert_eq!(reported_resize(Some(&harness.status())), ReportedResize::default());
    harness.pod.metadata.generation = Some(3);
    let pending = PendingResize { infeasible: true, message: "never".to_owned() };
    harness.pending = Some(pending.clone());
    harness.resizes = true;
    let expected =
        ReportedResize { pending: Some((pending, Some(3))), in_progress: true, error: None };
    assert_eq!(reported_resize(Some(&harness.status())), expected);
    let pending = PendingResize { infeasible: false, message: "no room".to_owned() };
    (harness.pending, harness.resize_error) = (Some(pending.clone()), Some("busy"));
    let error = Some("busy".to_owned());
    let expected = ReportedResize { pending: Some((pending, Some(3))), in_progress: true, error };
    assert_eq!(reported_resize(Some(&harness.status())), expected);
}
