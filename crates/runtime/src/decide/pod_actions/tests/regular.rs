//! Regular and ephemeral containers in a usable sandbox, and restarts of all containers.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::EphemeralContainer;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::observed::ContainerState::{Created, Exited, Running, Unknown};
use model::probe::{ProbeFailure, ProbeKind};

use testkit::observed::listed_container;

use super::*;
use crate::decide::reasons::KillReason;
use crate::decide::test_pods::{container, failed_probe, instance, pod, sidecar, with_inits};

// behaviour: ACT-40, ACT-41, ACT-42, ACT-43
#[test]
fn instance_state_selects_the_action() {
    let unknown = StartReason::Killed(KillReason::UnknownState);
    let rows = [
        ("Always", None, 0, Some(StartReason::New), false),
        ("OnFailure", None, 0, Some(StartReason::New), false),
        ("Never", None, 0, Some(StartReason::New), false),
        ("Always", Some(Exited), 0, Some(StartReason::Ended { exit_code: 0 }), false),
        ("Always", Some(Exited), 7, Some(StartReason::Ended { exit_code: 7 }), false),
        ("OnFailure", Some(Exited), 7, Some(StartReason::Ended { exit_code: 7 }), false),
        ("OnFailure", Some(Exited), 0, None, false),
        ("Never", Some(Exited), 7, None, false),
        ("Always", Some(Created), 0, Some(StartReason::NeverStarted), false),
        ("Never", Some(Created), 0, Some(StartReason::NeverStarted), false),
        ("Always", Some(Unknown), 0, Some(unknown), true),
        ("Never", Some(Unknown), 0, Some(unknown), true),
        ("Always", Some(Running), 0, None, false),
    ];
    for (policy, state, code, why, killed) in rows {
        let pod = pod(policy, vec![container("a"), container("other")]);
        let latest = state.map(|state| instance("c", "a", state, code));
        let other = instance("o", "other", Running, 0);
        let observed = in_live_sandbox(latest.into_iter().chain([other]).collect());
        let actions = actions(&pod, &observed);
        let expected: Vec<_> = why.into_iter().map(|why| (Role::Regular, 0, why)).collect();
        assert_eq!(starts(&actions), expected, "{policy} {state:?} {code}");
        assert_eq!(kills(&actions), if killed { vec!["c"] } else { vec![] }, "{policy} {state:?}");
        assert_eq!(actions.kill_pod, None);
    }
}

// behaviour: ACT-301
#[test]
fn deleted_pod_restarts_nothing() {
    let mut pod = pod("Always", vec![container("a"), container("b")]);
    pod.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let observed =
        in_live_sandbox(vec![instance("b", "b", Running, 0), instance("c", "a", Exited, 1)]);
    assert!(actions(&pod, &observed).is_nothing());
}

// behaviour: ACT-44
#[test]
fn changed_definition_replaces_the_running_instance_with_any_policy() {
    for policy in ["Always", "OnFailure", "Never"] {
        let mut changed = container("a");
        changed.image = Some("image:2".to_owned());
        let pod = pod(policy, vec![changed]);
        let actions = actions(&pod, &in_live_sandbox(vec![instance("c", "a", Running, 0)]));
        assert_eq!(kills(&actions), ["c"], "{policy}");
        let why = StartReason::Killed(KillReason::Changed);
        assert_eq!(starts(&actions), [(Role::Regular, 0, why)], "{policy}");
        let message = actions.kill[0].why.message(false, "a", actions.kill[0].restarts);
        assert_eq!(message, "Container a definition changed, will be restarted");
    }
}

// behaviour: ACT-306
#[test]
fn running_instance_without_a_hash_is_kept() {
    let rows = [
        ("Always", "image:1"),
        ("Always", "image:2"),
        ("OnFailure", "image:2"),
        ("Never", "image:2"),
    ];
    // Created by a client that sets no hash.
    let unmarked = |id, name| {
        let mut one = instance(id, name, Running, 0);
        one.annotations.clear();
        one
    };
    for (policy, image) in rows {
        let of = |wanted: Container| Container { image: Some(image.to_owned()), ..wanted };
        let pod = with_inits(pod(policy, vec![of(container("a"))]), vec![of(sidecar("side"))]);
        let observed = in_live_sandbox(vec![unmarked("c", "a"), unmarked("s", "side")]);
        assert!(actions(&pod, &observed).is_nothing(), "{policy} {image}");
    }
}

// behaviour: ACT-45, ACT-46
#[test]
fn failed_probe_restarts_unless_the_policy_is_never() {
    let failed = |kind| [("c".into(), failed_probe(kind))].into();
    let liveness =
        ProbeResults { liveness: failed(ProbeKind::Liveness), ..ProbeResults::default() };
    let startup = ProbeResults { startup: failed(ProbeKind::Startup), ..ProbeResults::default() };
    let own = |policy| with_policy(container("a"), policy);
    // Only its policy counts: rules are about exit codes, and it has not exited.
    let ruled = |policy: &str, action| Container {
        restart_policy: Some(policy.to_owned()),
        ..with_rule(container("a"), action, vec![0, 137])
    };
    let rows = vec![
        ("Always", container("a"), true),
        ("OnFailure", container("a"), true),
        ("Never", container("a"), false),
        ("Never", own("OnFailure"), true),
        ("Always", own("Never"), false),
        ("Always", ruled("Never", "Restart"), false),
        ("Never", ruled("Always", "RestartAllContainers"), true),
        ("Always", ruled("Never", "RestartAllContainers"), false),
    ];
    let probes = [(&liveness, KillReason::LivenessProbe), (&startup, KillReason::StartupProbe)];
    for (probes, why) in probes {
        for (policy, container_a, restarts) in rows.clone() {
            let pod = pod(policy, vec![container_a, container("other")]);
            let observed = in_live_sandbox(vec![
                instance("c", "a", Running, 0),
                instance("o", "other", Running, 0),
            ]);
            let context = SyncContext {
                pod: &pod,
                status: &observed,
                probes,
                restart_all: false,
                sizes: &Sizes::new(),
                cgroup: CgroupFacts::Unmanaged,
            };
            let actions = pod_actions(&context);
            let kill = &actions.kill[0];
            let failures = kill.probe.as_ref().map(|ProbeFailure { failures, .. }| *failures);
            assert_eq!((kill.why, kill.restarts, failures), (why, restarts, Some(3)));
            assert_eq!(actions.start.len(), usize::from(restarts), "{policy} {why:?}");
            assert!(actions.reset.is_empty(), "{policy} {why:?}");
        }
    }
}

// behaviour: ACT-47
#[test]
fn pod_without_regular_containers_to_run_ends_with_its_sidecars() {
    let pod = with_inits(pod("Never", vec![container("a")]), vec![sidecar("side")]);
    let observed =
        in_live_sandbox(vec![instance("c", "a", Exited, 0), instance("s", "side", Running, 0)]);
    let actions = actions(&pod, &observed);
    assert_eq!(actions.kill_pod, Some(KillPod::NothingLeft));
    assert_eq!((actions.sandbox, actions.start.len()), (SandboxPlan::None, 0));
}

// behaviour: ACT-48
#[test]
fn older_instance_is_killed_if_running_and_removed_if_never_started() {
    let pod = pod("Always", vec![container("a")]);
    let observed = in_live_sandbox(vec![
        instance("new", "a", Running, 0),
        instance("late", "a", Created, 0),
        instance("stray", "a", Running, 0),
        instance("old", "a", Exited, 1),
    ]);
    let actions = actions(&pod, &observed);
    assert_eq!((kills(&actions), removals(&actions)), (vec!["stray"], vec!["late"]));
    assert_eq!(actions.start.len(), 0);
}

// behaviour: ACT-48
#[test]
fn running_instance_stays_when_a_newer_one_never_started() {
    let inits = vec![sidecar("side")];
    let pod = with_inits(pod("Always", vec![container("a")]), inits);
    let observed = in_live_sandbox(vec![
        instance("late-side", "side", Created, 0),
        instance("side", "side", Running, 0),
        instance("late-a", "a", Created, 0),
        instance("a", "a", Running, 0),
        instance("old", "a", Exited, 1),
    ]);
    let actions = actions(&pod, &observed);
    assert_eq!((kills(&actions), removals(&actions)), (vec![], vec!["late-side", "late-a"]));
    assert_eq!(actions.start.len(), 0);
}

fn ephemeral(name: &str) -> EphemeralContainer {
    EphemeralContainer { name: name.to_owned(), ..EphemeralContainer::default() }
}

// behaviour: ACT-50, ACT-51
#[test]
fn ephemeral_container_starts_once_even_before_initialization() {
    let mut pod = with_inits(pod("Always", vec![container("a")]), vec![container("i")]);
    let spec = pod.spec.as_mut().unwrap();
    spec.ephemeral_containers = Some(vec![ephemeral("debug"), ephemeral("other")]);
    let observed =
        in_live_sandbox(vec![instance("i", "i", Running, 0), instance("d", "debug", Exited, 1)]);
    assert_eq!(started(&actions(&pod, &observed)), [(Role::Ephemeral, 1)]);
}

// behaviour: ACT-52
#[test]
fn ephemeral_container_neither_keeps_the_pod_running_nor_restarts() {
    let mut pod = pod("Never", vec![container("a")]);
    let spec = pod.spec.as_mut().unwrap();
    spec.ephemeral_containers = Some(vec![ephemeral("debug"), ephemeral("other")]);
    let ended =
        in_live_sandbox(vec![instance("c", "a", Exited, 0), instance("d", "debug", Running, 0)]);
    assert_eq!(actions(&pod, &ended).kill_pod, Some(KillPod::NothingLeft));
    pod.spec.as_mut().unwrap().restart_policy = Some("Always".to_owned());
    let dead = vec![sandbox("s", 0, SandboxState::NotReady)];
    let anew = actions(&pod, &status(dead, vec![instance("c", "a", Exited, 0)]));
    assert_eq!(started(&anew), [(Role::Regular, 0)]);
}

/// The actions for a pod that restarts all containers.
fn starting_over(pod: &Pod, status: &RuntimePodStatus) -> PodActions {
    let probes = ProbeResults::default();
    pod_actions(&SyncContext {
        pod,
        status,
        probes: &probes,
        restart_all: true,
        sizes: &Sizes::new(),
        cgroup: CgroupFacts::Unmanaged,
    })
}

/// The instances that a restart of all removes, in order, and whether they are killed first.
fn going(actions: &PodActions) -> Vec<(&str, bool)> {
    actions.reset.iter().map(|reset| (reset.id.as_str(), reset.kill)).collect()
}

// behaviour: ACT-55
#[test]
fn restart_of_all_removes_every_instance_and_the_trigger_last() {
    let triggers = with_rule(container("asks"), "RestartAllContainers", vec![42]);
    let pod = with_inits(
        pod("Always", vec![triggers, container("b")]),
        vec![container("i"), sidecar("side")],
    );
    let observed = in_live_sandbox(vec![
        instance("a1", "asks", Exited, 42),
        instance("b1", "b", Running, 0),
        instance("i1", "i", Exited, 0),
        instance("s1", "side", Running, 0),
        instance("a0", "asks", Exited, 1),
    ]);
    let observed =
        RuntimePodStatus { older: vec![listed_container("a", "asks", Exited)], ..observed };
    let actions = starting_over(&pod, &observed);
    let expected =
        [("a0", false), ("a", false), ("b1", true), ("i1", false), ("s1", true), ("a1", false)];
    assert_eq!(going(&actions), expected);
    assert_eq!((actions.start.len(), actions.kill.len(), actions.kill_pod), (0, 0, None));
}

// behaviour: ACT-55
#[test]
fn init_container_that_triggered_a_restart_of_all_is_removed_last() {
    let triggers = |name| with_rule(container(name), "RestartAllContainers", vec![42]);
    let pod = with_inits(
        pod("Always", vec![container("a"), triggers("too")]),
        vec![sidecar("side"), container("i"), triggers("asks")],
    );
    // Regular containers of an earlier sandbox are left, one of which triggered it too.
    let observed = in_live_sandbox(vec![
        instance("n1", "asks", Exited, 42),
        instance("n0", "asks", Exited, 1),
        instance("s1", "side", Running, 0),
        instance("i0", "i", Exited, 0),
        instance("t0", "too", Exited, 42),
        instance("a0", "a", Exited, 255),
    ]);
    let actions = starting_over(&pod, &observed);
    let expected =
        [("a0", false), ("s1", true), ("i0", false), ("n0", false), ("t0", false), ("n1", false)];
    assert_eq!(going(&actions), expected);
    assert_eq!((actions.start.len(), actions.kill.len(), actions.kill_pod), (0, 0, None));
}
