//! Whether a sandbox is usable, and what starts in a new one.

use model::observed::ContainerState::{Created, Exited, Running};
use model::observed::SandboxState::{NotReady, Ready};

use super::*;
use crate::decide::test_pods::{container, instance, pod, sidecar, with_inits};

const CREATE_FIRST: SandboxPlan = SandboxPlan::Create { attempt: 0, replaces: false };

// behaviour: ACT-1
#[test]
fn new_pod_gets_a_sandbox_and_all_containers() {
    let pod = pod("Never", vec![container("a"), container("b")]);
    let actions = actions(&pod, &status(vec![], vec![]));
    assert_eq!(actions.kill_pod, None);
    assert_eq!(actions.sandbox, CREATE_FIRST);
    let new = StartReason::New;
    assert_eq!(starts(&actions), [(Role::Regular, 0, new), (Role::Regular, 1, new)]);
}

// behaviour: ACT-2, ACT-3, ACT-4, ACT-5
#[test]
fn unusable_sandbox_is_replaced() {
    let mut without_ip = sandbox("s", 3, Ready);
    without_ip.ips.clear();
    let mut on_host = sandbox("s", 3, Ready);
    on_host.host_network = true;
    let rows = [
        ("two live and used", vec![sandbox("t", 3, Ready), sandbox("s", 2, Ready)], true),
        ("dead", vec![sandbox("s", 3, NotReady)], true),
        ("on another network", vec![on_host], false),
        ("without address", vec![without_ip], true),
    ];
    for (name, sandboxes, replaces) in rows {
        let pod = pod("Always", vec![container("a")]);
        let observed = status(sandboxes, vec![instance("c", "a", Running, 0)]);
        let actions = actions(&pod, &observed);
        assert_eq!(actions.kill_pod, Some(KillPod::SandboxChanged), "{name}");
        assert_eq!(actions.sandbox, SandboxPlan::Create { attempt: 4, replaces }, "{name}");
        assert_eq!(starts(&actions), [(Role::Regular, 0, StartReason::NewSandbox)], "{name}");
    }
}

// behaviour: ACT-6
#[test]
fn usable_sandbox_is_kept() {
    let pod = pod("Always", vec![container("a")]);
    let running = vec![instance("c", "a", Running, 0)];
    let actions = actions(&pod, &status(vec![sandbox("s", 7, Ready)], running));
    assert_eq!(actions.sandbox, SandboxPlan::Keep("s".into()));
    assert!(actions.is_nothing());
}

// behaviour: ACT-7
#[test]
fn empty_ready_sandbox_other_than_the_newest_is_removed() {
    let pod = pod("Always", vec![container("a")]);
    let sandboxes = vec![sandbox("s", 1, Ready), sandbox("late", 0, Ready)];
    let actions = actions(&pod, &status(sandboxes, vec![instance("c", "a", Running, 0)]));
    assert_eq!(actions.remove_sandboxes, ["late".into()]);
    assert_eq!((actions.kill_pod, actions.start.len()), (None, 0));
    assert_eq!(actions.sandbox, SandboxPlan::Keep("s".into()));
}

// behaviour: ACT-8
#[test]
fn run_once_pod_does_not_run_again_when_its_sandbox_died() {
    let pod = pod("Never", vec![container("a")]);
    let dead = || vec![sandbox("s", 0, NotReady)];
    let ran = actions(&pod, &status(dead(), vec![instance("c", "a", Exited, 1)]));
    assert_eq!((ran.sandbox, ran.start.len()), (SandboxPlan::None, 0));
    let never_ran = actions(&pod, &status(dead(), vec![]));
    assert_eq!(never_ran.sandbox, SandboxPlan::Create { attempt: 1, replaces: true });
    assert_eq!(never_ran.start.len(), 1);
}

// behaviour: ACT-9, ACT-10
#[test]
fn succeeded_containers_do_not_restart_in_a_new_sandbox_with_on_failure() {
    let dead = || vec![sandbox("s", 0, NotReady)];
    let ended = |a, b| vec![instance("c", "a", Exited, a), instance("d", "b", Exited, b)];
    let by_pod = pod("OnFailure", vec![container("a"), container("b")]);
    let one_failed = actions(&by_pod, &status(dead(), ended(0, 1)));
    assert_eq!(starts(&one_failed), [(Role::Regular, 1, StartReason::NewSandbox)]);
    let own = with_policy(container("a"), "OnFailure");
    let by_container = pod("Always", vec![own, container("b")]);
    let both_succeeded = actions(&by_container, &status(dead(), ended(0, 0)));
    assert_eq!(starts(&both_succeeded), [(Role::Regular, 1, StartReason::NewSandbox)]);
    let none_failed = actions(&by_pod, &status(dead(), ended(0, 0)));
    assert_eq!((none_failed.sandbox, none_failed.start.len()), (SandboxPlan::None, 0));
    // Unless a rule restarts it regardless of its policy.
    let ruled = with_policy(with_rule(container("a"), "Restart", vec![0]), "OnFailure");
    let by_rule = pod("OnFailure", vec![ruled, container("b")]);
    let both_succeeded = actions(&by_rule, &status(dead(), ended(0, 0)));
    assert_eq!(starts(&both_succeeded), [(Role::Regular, 0, StartReason::NewSandbox)]);
}

// behaviour: ACT-11
#[test]
fn init_containers_start_over_in_a_new_sandbox() {
    let plain = || pod("Always", vec![container("a")]);
    for (first, role) in [(container("i"), Role::Init), (sidecar("i"), Role::Sidecar)] {
        let pod = with_inits(plain(), vec![first, container("j")]);
        let instances = vec![
            instance("c", "a", Exited, 137),
            instance("i1", "i", Exited, 0),
            instance("i0", "i", Exited, 1),
            instance("j0", "j", Created, 0),
        ];
        let observed = status(vec![sandbox("s", 0, NotReady)], instances);
        let actions = actions(&pod, &observed);
        assert_eq!(starts(&actions), [(role, 0, StartReason::NewSandbox)]);
        assert_eq!(removals(&actions), ["i1", "i0", "j0"]);
        assert_eq!(actions.sandbox, SandboxPlan::Create { attempt: 1, replaces: true });
    }
    let pod = with_inits(plain(), vec![container("i"), container("j")]);
    let new = actions(&pod, &status(vec![], vec![]));
    assert_eq!(starts(&new), [(Role::Init, 0, StartReason::New)]);
}

#[test]
fn kill_without_targets_is_not_an_action() {
    let pod = pod("Never", vec![container("a")]);
    let dead = status(vec![sandbox("s", 0, NotReady)], vec![instance("c", "a", Exited, 0)]);
    assert!(actions(&pod, &dead).is_nothing());
}
