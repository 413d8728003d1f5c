use std::collections::BTreeMap;

use model::observed::ContainerState::{Created, Exited, Running, Unknown};
use model::observed::SandboxState::{NotReady, Ready};
use proptest::prelude::*;

use super::*;
use crate::decide::has_finished;
use crate::decide::test_pods::{container, instance, pod, sandbox, status};

fn starts(actions: &PodActions) -> Vec<(usize, StartReason)> {
    actions.start.iter().map(|start| (start.index, start.why)).collect()
}

fn kills(actions: &PodActions) -> Vec<&str> {
    actions.kill.iter().map(|kill| kill.id.as_str()).collect()
}

#[test]
fn a_new_pod_gets_a_sandbox_and_all_its_containers() {
    let pod = pod("Never", vec![container("a"), container("b")]);
    let actions = pod_actions(&pod, &status(vec![], vec![]));
    assert_eq!(actions.kill_pod, None);
    assert_eq!(actions.sandbox, SandboxPlan::Create { attempt: 0, replaces: false });
    assert_eq!(starts(&actions), [(0, StartReason::New), (1, StartReason::New)]);
}

#[test]
fn a_pod_that_runs_as_specified_is_left_alone() {
    let pod = pod("Always", vec![container("a")]);
    let observed = status(vec![sandbox("s", 0, Ready)], vec![instance("c", "a", Running, 0)]);
    assert!(pod_actions(&pod, &observed).is_nothing());
}

#[test]
fn a_sandbox_that_cannot_be_used_is_replaced() {
    let mut without_ip = sandbox("s", 3, Ready);
    without_ip.ips.clear();
    let mut on_host = sandbox("s", 3, Ready);
    on_host.host_network = true;
    let rows = [
        ("dead", vec![sandbox("s", 3, NotReady)], true),
        ("two live", vec![sandbox("s", 3, Ready), sandbox("t", 2, Ready)], true),
        ("without address", vec![without_ip], true),
        ("on another network", vec![on_host], false),
    ];
    for (name, sandboxes, replaces) in rows {
        let pod = pod("Always", vec![container("a")]);
        let observed = status(sandboxes, vec![instance("c", "a", Running, 0)]);
        let actions = pod_actions(&pod, &observed);
        assert_eq!(actions.kill_pod, Some(KillPod::SandboxChanged), "{name}");
        assert_eq!(actions.sandbox, SandboxPlan::Create { attempt: 4, replaces }, "{name}");
        assert_eq!(starts(&actions), [(0, StartReason::NewSandbox)], "{name}");
    }
}

#[test]
fn a_run_once_pod_whose_sandbox_died_after_it_ran_is_not_run_again() {
    let pod = pod("Never", vec![container("a")]);
    let dead = || vec![sandbox("s", 0, NotReady)];
    let ran = pod_actions(&pod, &status(dead(), vec![instance("c", "a", Exited, 1)]));
    assert_eq!((ran.sandbox, ran.start.len()), (SandboxPlan::None, 0));
    let never_ran = pod_actions(&pod, &status(dead(), vec![]));
    assert_eq!(never_ran.sandbox, SandboxPlan::Create { attempt: 1, replaces: true });
    assert_eq!(never_ran.start.len(), 1);
}

#[test]
fn succeeded_containers_stay_down_in_a_new_sandbox_when_only_failures_restart() {
    let pod = pod("OnFailure", vec![container("a"), container("b")]);
    let one_failed = status(
        vec![sandbox("s", 0, NotReady)],
        vec![instance("c", "a", Exited, 0), instance("d", "b", Exited, 1)],
    );
    assert_eq!(starts(&pod_actions(&pod, &one_failed)), [(1, StartReason::NewSandbox)]);
    let none_failed = status(
        vec![sandbox("s", 0, NotReady)],
        vec![instance("c", "a", Exited, 0), instance("d", "b", Exited, 0)],
    );
    let actions = pod_actions(&pod, &none_failed);
    assert_eq!((actions.sandbox, actions.start.len()), (SandboxPlan::None, 0));
}

#[test]
fn each_state_of_an_instance_leads_to_its_action() {
    let rows = [
        ("Always", Exited, 0, Some(StartReason::Ended { exit_code: 0 }), false),
        ("Always", Exited, 7, Some(StartReason::Ended { exit_code: 7 }), false),
        ("OnFailure", Exited, 7, Some(StartReason::Ended { exit_code: 7 }), false),
        ("OnFailure", Exited, 0, None, false),
        ("Never", Exited, 7, None, false),
        ("Always", Created, 0, Some(StartReason::NeverStarted), false),
        ("Always", Unknown, 0, Some(StartReason::UnknownState), true),
        ("Always", Running, 0, None, false),
    ];
    for (policy, state, code, why, killed) in rows {
        let pod = pod(policy, vec![container("a"), container("other")]);
        let observed = status(
            vec![sandbox("s", 0, Ready)],
            vec![instance("c", "a", state, code), instance("o", "other", Running, 0)],
        );
        let actions = pod_actions(&pod, &observed);
        let expected: Vec<_> = why.into_iter().map(|why| (0, why)).collect();
        assert_eq!(starts(&actions), expected, "{policy} {state:?} {code}");
        assert_eq!(kills(&actions), if killed { vec!["c"] } else { vec![] }, "{policy} {state:?}");
        assert_eq!(actions.kill_pod, None);
    }
}

#[test]
fn a_changed_definition_replaces_the_running_instance_whatever_the_policy() {
    for policy in ["Always", "OnFailure", "Never"] {
        let mut changed = container("a");
        changed.image = Some("image:2".to_owned());
        let pod = pod(policy, vec![changed]);
        let observed = status(vec![sandbox("s", 0, Ready)], vec![instance("c", "a", Running, 0)]);
        let actions = pod_actions(&pod, &observed);
        assert_eq!(kills(&actions), ["c"], "{policy}");
        assert_eq!(starts(&actions), [(0, StartReason::Changed)], "{policy}");
    }
}

#[test]
fn only_the_newest_instance_of_a_name_counts() {
    let pod = pod("Always", vec![container("a")]);
    let observed = status(
        vec![sandbox("s", 0, Ready)],
        vec![instance("new", "a", Running, 0), instance("old", "a", Exited, 1)],
    );
    assert!(pod_actions(&pod, &observed).is_nothing());
}

#[test]
fn a_sandbox_with_nothing_left_to_run_goes() {
    let pod = pod("Never", vec![container("a")]);
    let live = status(vec![sandbox("s", 0, Ready)], vec![instance("c", "a", Exited, 0)]);
    let actions = pod_actions(&pod, &live);
    assert_eq!(actions.kill_pod, Some(KillPod::NothingLeft));
    assert_eq!(actions.sandbox, SandboxPlan::None);
    let dead = status(vec![sandbox("s", 0, NotReady)], vec![instance("c", "a", Exited, 0)]);
    assert!(pod_actions(&pod, &dead).is_nothing(), "killing nothing is no action");
}

/// What the runtime has after the actions were done without failures.
fn apply(pod: &Pod, observed: &PodStatus, actions: &PodActions) -> PodStatus {
    let mut after = observed.clone();
    let exit = |instance: &mut ContainerStatus| {
        if matches!(instance.state, Running | Unknown) {
            instance.state = Exited;
            instance.exit_code = 137;
        }
    };
    if actions.kill_pod.is_some() {
        after.containers.iter_mut().for_each(exit);
        after.sandboxes.iter_mut().for_each(|sandbox| sandbox.state = NotReady);
    }
    for kill in &actions.kill {
        after.containers.iter_mut().filter(|instance| instance.id == kill.id).for_each(exit);
    }
    if let SandboxPlan::Create { attempt, .. } = actions.sandbox {
        after.sandboxes.insert(0, sandbox(&format!("s{attempt}"), attempt, Ready));
    }
    for start in &actions.start {
        let name = &view::containers(pod)[start.index].name;
        let id = format!("{name}-{}", after.containers.len());
        after.containers.insert(0, instance(&id, name, Running, 0));
    }
    after
}

fn live_by_name(status: &PodStatus) -> BTreeMap<String, usize> {
    let mut live = BTreeMap::new();
    for instance in &status.containers {
        if matches!(instance.state, Running | Unknown) {
            *live.entry(instance.name.to_string()).or_default() += 1;
        }
    }
    live
}

fn any_status() -> impl Strategy<Value = PodStatus> {
    let sandboxes = proptest::collection::vec(any::<bool>(), 0..3);
    let states = prop_oneof![Just(Created), Just(Running), Just(Exited), Just(Unknown)];
    let latest = proptest::option::of((states, 0..3i32));
    let older_state = prop_oneof![3 => Just(Exited), 1 => Just(Running), 1 => Just(Unknown)];
    let older = proptest::collection::vec((0..2usize, older_state, 0..3i32), 0..3);
    (sandboxes, latest.clone(), latest, older).prop_map(|(ready, a, b, older)| {
        let count = u32::try_from(ready.len()).unwrap();
        let sandboxes = ready.into_iter().zip(0..).map(|(ready, n)| {
            let attempt = count - 1 - n;
            sandbox(&format!("s{attempt}"), attempt, if ready { Ready } else { NotReady })
        });
        let newest = [("a", a), ("b", b)].into_iter().filter_map(|(name, latest)| {
            latest.map(|(state, code)| instance(&format!("{name}-latest"), name, state, code))
        });
        let older = older.into_iter().zip(0..).map(|((name, state, code), n)| {
            let name = ["a", "b"][name];
            instance(&format!("{name}-old-{n}"), name, state, code)
        });
        status(sandboxes.collect(), newest.chain(older).collect())
    })
}

fn any_pod() -> impl Strategy<Value = Pod> {
    prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")]
        .prop_map(|policy| pod(policy, vec![container("a"), container("b")]))
}

proptest! {
    #[test]
    fn after_the_actions_there_is_nothing_left_to_do(pod in any_pod(), observed in any_status()) {
        let mut after = apply(&pod, &observed, &pod_actions(&pod, &observed));
        // What was killed so that another could take its place counts as ended from now on; one more
        // round may be needed when ending it left nothing to run.
        after = apply(&pod, &after, &pod_actions(&pod, &after));
        prop_assert!(pod_actions(&pod, &after).is_nothing(), "{:?}", pod_actions(&pod, &after));
        prop_assert!(
            has_finished(&pod, &after) || live_by_name(&after).values().all(|live| *live == 1)
        );
    }

    #[test]
    fn two_instances_of_one_name_never_live(pod in any_pod(), observed in any_status()) {
        let after = apply(&pod, &observed, &pod_actions(&pod, &observed));
        for (name, live) in live_by_name(&after) {
            prop_assert!(live <= 1, "{name}: {live}");
        }
    }

    #[test]
    fn what_is_kept_is_never_started(pod in any_pod(), observed in any_status()) {
        let actions = pod_actions(&pod, &observed);
        if actions.kill_pod.is_none() {
            for start in &actions.start {
                let name = &view::containers(&pod)[start.index].name;
                let running = observed.latest(name).filter(|latest| latest.state == Running);
                let killed = running.is_none_or(|running| {
                    actions.kill.iter().any(|kill| kill.id == running.id)
                });
                prop_assert!(killed, "{name}");
            }
        }
    }
}
