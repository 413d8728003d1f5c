//! The conditions.

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
    NOW, World, at, condition, container, find, instance, pod, sandbox, sidecar, time, with_init,
};
use crate::decide::{Phase, conditions};

/// What a condition says: `True`, `False REASON`, `False REASON: MESSAGE`, or `-` without one.
fn says(status: &PodStatus, type_: &str) -> String {
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
fn a_pod_whose_sandbox_is_usable_is_ready_to_start_containers() {
    let world = |change: &dyn Fn(&mut World)| {
        let mut world = World::new(pod("Always", &["a"]), vec![]);
        change(&mut world);
        says(&world.status(), "PodReadyToStartContainers")
    };
    let host_network = |world: &mut World| {
        world.pod.spec.as_mut().unwrap().host_network = Some(true);
    };
    assert_eq!(world(&|_| {}), "True");
    assert_eq!(world(&|world| world.observed.sandboxes.clear()), "False");
    let just_made = |world: &mut World| {
        world.observed.sandboxes.clear();
        world.has_new_sandbox = true;
    };
    assert_eq!(world(&just_made), "True");
    assert_eq!(world(&|world| world.observed.sandboxes[0].state = NotReady), "False");
    // Another live one is in the way only if something was made in it.
    assert_eq!(world(&|world| world.observed.sandboxes.push(sandbox(Ready))), "True");
    let used = |world: &mut World| {
        let mut instance = instance("a-0", Running, 0);
        let other = sandbox(Ready);
        instance.sandbox_id = other.id.clone();
        world.observed.containers.push(instance);
        world.observed.sandboxes.push(other);
    };
    assert_eq!(world(&used), "False");
    assert_eq!(world(&|world| world.observed.sandboxes.push(sandbox(NotReady))), "True");
    assert_eq!(world(&|world| world.observed.sandboxes[0].ips.clear()), "False");
    assert_eq!(world(&host_network), "False");
    let on_host = |world: &mut World| {
        host_network(world);
        world.observed.sandboxes[0].host_network = true;
        world.observed.sandboxes[0].ips.clear();
    };
    assert_eq!(world(&on_host), "True");
}

#[test]
fn a_pod_is_initialized_when_its_init_containers_are_done() {
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
        let status = World::new(pod, instances).status();
        assert_eq!(says(&status, "Initialized"), expected, "{what}");
    }
    let without = World::new(pod("Always", &["main"]), vec![]).status();
    assert_eq!(says(&without, "Initialized"), "True");
}

#[test]
fn a_pod_that_was_initialized_stays_so() {
    let pod = with_init(pod("Always", &["main"]), vec![container("first")]);
    let world = World::new(pod, vec![]);
    assert_eq!(says(&world.status(), "Initialized").split(' ').next(), Some("False"));
    let world = world.with_previous(old_condition("True"));
    assert_eq!(says(&world.status(), "Initialized"), "True");
}

#[test]
fn containers_are_ready_when_all_regular_ones_and_sidecars_are() {
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
        let status = World::new(pod, instances).status();
        assert_eq!(says(&status, "ContainersReady"), expected);
        assert_eq!(says(&status, "Ready"), expected);
    }
}

#[test]
fn a_failed_pod_is_not_ready_although_containers_still_run() {
    let world = World::new(pod("Always", &["a"]), vec![instance("a-0", Running, 0)])
        .with_previous(PodStatus { phase: Some("Failed".to_owned()), ..PodStatus::default() });
    assert_eq!(says(&world.status(), "Ready"), "False PodFailed");
}

#[test]
fn statuses_that_are_not_known_are_not_ready_and_not_initialized() {
    let world = World::new(with_init(pod("Always", &["a"]), vec![container("first")]), vec![]);
    let with = |containers: &Containers| PodStatus {
        conditions: Some(conditions(&world.input(), Phase::Pending, containers)),
        ..PodStatus::default()
    };
    let nothing = with(&Containers::default());
    for type_ in ["Initialized", "ContainersReady", "Ready"] {
        assert_eq!(says(&nothing, type_), "False UnknownContainerStatuses", "{type_}");
    }
    let waits = crate::decide::test_pods::waiting("PodInitializing");
    let one = crate::decide::test_pods::status("another", waits);
    let alien = with(&Containers { regular: vec![one], ..Containers::default() });
    assert_eq!(
        says(&alien, "Initialized"),
        "False ContainersNotInitialized: containers with unknown status: [first]"
    );
    assert_eq!(
        says(&alien, "ContainersReady"),
        "False ContainersNotReady: containers with unknown status: [a]"
    );
}

#[test]
fn readiness_gates_hold_up_a_pod_and_not_its_containers() {
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
        let mut world = World::new(pod("Always", &["a"]), vec![instance("a-0", Running, 0)]);
        world.pod.spec.as_mut().unwrap().readiness_gates = Some(vec![gate("ex.io/up")]);
        world.pod.status = Some(PodStatus {
            conditions: says_gate.map(|says| vec![condition("ex.io/up", says)]),
            ..PodStatus::default()
        });
        let status = world.status();
        assert_eq!(says(&status, "Ready"), expected);
        assert_eq!(says(&status, "ContainersReady"), "True");
    }
}

#[test]
fn a_pod_on_a_node_is_scheduled() {
    let world = World::new(pod("Always", &["a"]), vec![]);
    assert_eq!(says(&world.status(), "PodScheduled"), "True");
}

/// A container that asks for a restart of all by its exit with 7.
fn asking(name: &str) -> Container {
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
fn all_containers_restart_from_the_exit_that_asks_for_it_until_none_is_left() {
    let ruled = || {
        let mut pod = pod("Never", &["a", "b"]);
        pod.spec.as_mut().unwrap().containers[0] = asking("a");
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
        let mut world = World::new(ruled(), instances).with_previous(previous.clone());
        world.pod.metadata.generation = Some(3);
        let status = world.status();
        assert_eq!(says(&status, "AllContainersRestarting"), expected, "{what}");
        let found = find(&status, "AllContainersRestarting").unwrap();
        assert_eq!(found.observed_generation, None);
        let unruled = World::new(pod("Never", &["a", "b"]), vec![b()]).with_previous(previous);
        assert_eq!(says(&unruled.status(), "AllContainersRestarting"), "-");
    }
}

// behaviour: ACT-55
#[test]
fn the_exit_of_an_init_container_may_ask_for_it_too() {
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
        let pod = with_init(pod("Never", &["a"]), vec![sidecar("beside"), asking("first")]);
        let conditions = Some(vec![condition("AllContainersRestarting", before)]);
        let previous = PodStatus { conditions, ..PodStatus::default() };
        let status = World::new(pod, instances).with_previous(previous).status();
        assert_eq!(says(&status, "AllContainersRestarting"), expected, "{what}");
    }
}

#[test]
fn the_time_of_a_condition_stays_while_it_says_the_same() {
    let mut world = World::new(pod("Always", &["a"]), vec![instance("a-0", Running, 0)]);
    let since = |world: &World, type_: &str| {
        find(&world.status(), type_).unwrap().last_transition_time.clone().unwrap()
    };
    assert_eq!(since(&world, "Ready"), time(NOW));
    world.previous = Some(old_condition("True"));
    assert_eq!(since(&world, "Ready"), time(5));
    world.previous = Some(old_condition("False"));
    assert_eq!(since(&world, "Ready"), time(NOW));
    world.previous = None;
    world.pod.status = Some(old_condition("True"));
    assert_eq!(since(&world, "Ready"), time(5), "what the API shows counts after a restart");
}

#[test]
fn conditions_tell_for_which_generation_they_are() {
    for (generation, expected) in [(Some(4), Some(4)), (Some(0), None), (None, None)] {
        let mut world = World::new(pod("Always", &["a"]), vec![]);
        world.pod.metadata.generation = generation;
        let conditions = world.status().conditions.unwrap();
        assert_eq!(conditions.len(), 5);
        for condition in conditions {
            assert_eq!(condition.observed_generation, expected, "{}", condition.type_);
        }
    }
}

#[test]
fn conditions_of_others_stay_as_they_are_and_come_first() {
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
    let mut world = World::new(pod("Always", &["a"]), vec![]);
    world.pod.status = of_status(vec![condition("Ready", "True"), leftover(), foreign()]);
    assert_eq!(types(&world.status()), [&["ex.io/up"], &own[..]].concat());
    assert_eq!(find(&world.status(), "ex.io/up"), Some(&foreign()));

    world.previous = of_status(vec![condition("ex.io/gone", "True"), condition("Ready", "True")]);
    assert_eq!(
        types(&world.status()),
        [&["ex.io/up"], &own[..]].concat(),
        "the API's are the truth"
    );
    world.pod.status = None;
    assert_eq!(types(&world.status()), [&["ex.io/gone"], &own[..]].concat());

    world.previous = of_status(vec![condition("DisruptionTarget", "True")]);
    world.pod.status = of_status(vec![foreign(), condition("DisruptionTarget", "False")]);
    let found = world.status();
    assert_eq!(types(&found), [&["ex.io/up", "DisruptionTarget"], &own[..]].concat());
    assert_eq!(says(&found, "DisruptionTarget"), "True");
}

// behaviour: ADM-19
#[test]
fn a_pod_that_the_node_ends_for_others_says_so_from_then_on() {
    let mut world = World::new(pod("Always", &["a"]), vec![]);
    world.failure = Some(PodFailure {
        reason: "Preempting",
        message: "make room".to_owned(),
        disruption: Some("for a critical pod"),
    });
    let told = world.status();
    let condition = find(&told, "DisruptionTarget").expect("the condition").clone();
    assert_eq!((condition.status.as_str(), told.phase.as_deref()), ("True", Some("Failed")));
    assert_eq!(condition.reason.as_deref(), Some("TerminationByKubelet"));
    assert_eq!(condition.message.as_deref(), Some("for a critical pod"));
    world.previous = Some(told);
    world.failure = None;
    world.stopped_for_good = true;
    let later = world.status();
    assert_eq!(find(&later, "DisruptionTarget"), Some(&condition));
    assert_eq!(later.reason.as_deref(), Some("Preempting"));
    assert_eq!(later.message.as_deref(), Some("make room"));
}

// behaviour: RSZ-21
#[test]
fn a_resize_that_waits_or_goes_on_is_told_until_it_is_over() {
    let waits = |infeasible| Some(PendingResize { infeasible, message: "no room".to_owned() });
    let mut world = World::new(pod("Always", &["a"]), vec![]);
    world.pending = waits(false);
    let first = world.status();
    let condition = find(&first, "PodResizePending").expect("the condition").clone();
    assert_eq!(
        (condition.status.as_str(), condition.reason.as_deref()),
        ("True", Some("Deferred"))
    );
    assert_eq!(condition.message.as_deref(), Some("no room"));
    assert!(find(&first, "PodResizeInProgress").is_none());
    // The same again is the same; another reason is another time.
    world.previous = Some(first.clone());
    world.now = at(NOW + 5);
    assert_eq!(world.status(), first);
    world.pending = waits(true);
    let condition = find(&world.status(), "PodResizePending").expect("the condition").clone();
    assert_eq!(condition.reason.as_deref(), Some("Infeasible"));
    assert_eq!(condition.last_transition_time, Some(time(NOW + 5)));
    world.pending = None;
    world.resizes = true;
    let goes_on = world.status();
    assert!(find(&goes_on, "PodResizePending").is_none());
    let condition = find(&goes_on, "PodResizeInProgress").expect("the condition");
    assert_eq!((condition.status.as_str(), condition.reason.as_deref()), ("True", None));
    world.resize_error = Some("it uses more");
    let stuck = world.status();
    let condition = find(&stuck, "PodResizeInProgress").expect("the condition");
    assert_eq!(condition.reason.as_deref(), Some("Error"));
    assert_eq!(condition.message.as_deref(), Some("it uses more"));
    // Whoever is over waits for nothing.
    world.previous = Some(stuck);
    world.failure =
        Some(PodFailure { reason: "Evicted", message: "over".to_owned(), disruption: None });
    let over = world.status();
    assert!(find(&over, "PodResizeInProgress").is_none(), "{over:?}");
    world.failure = None;
    (world.resizes, world.resize_error) = (false, None);
    world.previous = None;
    assert!(find(&world.status(), "PodResizeInProgress").is_none());
}

#[test]
fn resize_in_progress_keeps_its_generation_until_cleared() {
    let generation = |world: &World, type_: &str| {
        find(&world.status(), type_).and_then(|condition| condition.observed_generation)
    };
    let mut world = World::new(pod("Always", &["a"]), vec![]);
    world.pod.metadata.generation = Some(3);
    world.resizes = true;
    world.previous = Some(world.status());
    // Another resize waits meanwhile.
    world.pod.metadata.generation = Some(4);
    world.pending = Some(PendingResize { infeasible: false, message: "no room".to_owned() });
    assert_eq!(generation(&world, "PodResizeInProgress"), Some(3));
    assert_eq!(generation(&world, "PodResizePending"), Some(4));
    world.resizes = false;
    world.previous = Some(world.status());
    world.resizes = true;
    assert_eq!(generation(&world, "PodResizeInProgress"), Some(4));
}

// behaviour: RSZ-25
#[test]
fn the_next_agent_reads_how_far_a_resize_was() {
    use podspec::{ReportedResize, reported_resize};
    let mut world = World::new(pod("Always", &["main"]), vec![]);
    assert_eq!(reported_resize(None), ReportedResize::default());
    assert_eq!(reported_resize(Some(&world.status())), ReportedResize::default());
    world.pod.metadata.generation = Some(3);
    let pending = PendingResize { infeasible: true, message: "never".to_owned() };
    world.pending = Some(pending.clone());
    world.resizes = true;
    let expected =
        ReportedResize { pending: Some((pending, Some(3))), in_progress: true, error: None };
    assert_eq!(reported_resize(Some(&world.status())), expected);
    let pending = PendingResize { infeasible: false, message: "no room".to_owned() };
    (world.pending, world.resize_error) = (Some(pending.clone()), Some("busy"));
    let error = Some("busy".to_owned());
    let expected = ReportedResize { pending: Some((pending, Some(3))), in_progress: true, error };
    assert_eq!(reported_resize(Some(&world.status())), expected);
}
