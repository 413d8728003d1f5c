//! What holds whatever the pod and whatever was observed.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::EphemeralContainer;
use model::observed::ContainerState::{Created, Exited, Running, Unknown};
use model::observed::SandboxState::{NotReady, Ready};
use podspec::view;
use proptest::prelude::*;

use super::*;
use crate::decide::has_finished;
use crate::decide::test_pods::{container, instance, pod, sidecar, with_inits};

/// Names of all containers: regular, init, sidecar, ephemeral.
const NAMES: [&str; 5] = ["a", "b", "init", "side", "debug"];

fn name_of(pod: &Pod, role: Role, index: usize) -> String {
    match role {
        Role::Regular => view::containers(pod)[index].name.clone(),
        Role::Init | Role::Sidecar => view::init_containers(pod)[index].name.clone(),
        Role::Ephemeral => view::ephemeral_containers(pod)[index].name.clone(),
    }
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
    after.containers.retain(|one| actions.remove.iter().all(|removal| removal.id != one.id));
    after.sandboxes.retain(|one| !actions.remove_sandboxes.contains(&one.id));
    if let SandboxPlan::Create { attempt, .. } = actions.sandbox {
        after.sandboxes.insert(0, sandbox(&format!("s{attempt}"), attempt, Ready));
    }
    for start in &actions.start {
        let name = name_of(pod, start.role, start.index);
        // One that was made and not started is started, or makes way.
        let waits = after.latest(&name).is_some_and(|latest| latest.state == Created);
        if waits {
            let place = after.containers.iter().position(|one| *one.name == *name).unwrap();
            after.containers.remove(place);
        }
        let id = format!("{name}-{}", after.containers.len());
        let sandbox_id = after.sandboxes[0].id.clone();
        let started = instance(&id, &name, Running, 0);
        after.containers.insert(0, ContainerStatus { sandbox_id, ..started });
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
    let one = (0..NAMES.len(), states, 0..3i32, 0..3usize);
    let instances = proptest::collection::vec(one, 0..7);
    (sandboxes, instances).prop_map(|(ready, instances)| {
        let count = u32::try_from(ready.len()).unwrap();
        let sandboxes = ready.into_iter().zip(0..).map(|(ready, n)| {
            let attempt = count - 1 - n;
            sandbox(&format!("s{attempt}"), attempt, if ready { Ready } else { NotReady })
        });
        let instances = instances.into_iter().zip(0..).map(|((name, state, code, sandbox), n)| {
            let made = instance(&format!("{}-old-{n}", NAMES[name]), NAMES[name], state, code);
            ContainerStatus { sandbox_id: format!("s{sandbox}").into(), ..made }
        });
        status(sandboxes.collect(), instances.collect())
    })
}

fn any_pod() -> impl Strategy<Value = Pod> {
    let policy = prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")];
    (policy, 0..4usize, any::<bool>()).prop_map(|(policy, inits, debug)| {
        let inits = match inits {
            0 => vec![],
            1 => vec![container("init")],
            2 => vec![sidecar("side"), container("init")],
            _ => vec![container("init"), sidecar("side")],
        };
        let mut pod = with_inits(pod(policy, vec![container("a"), container("b")]), inits);
        let ephemeral = EphemeralContainer { name: "debug".into(), ..Default::default() };
        pod.spec.as_mut().unwrap().ephemeral_containers = debug.then(|| vec![ephemeral]);
        pod
    })
}

proptest! {
    // behaviour: ACT-110
    #[test]
    fn after_the_actions_there_is_nothing_left_to_do(pod in any_pod(), observed in any_status()) {
        let mut after = observed;
        // A new sandbox starts from its first init container; each round may start the next one. An
        // init container that runs is waited for.
        for _ in 0..6 {
            after = apply(&pod, &after, &actions(&pod, &after));
        }
        let left = actions(&pod, &after);
        prop_assert!(left.is_nothing(), "{left:?} for {after:?}");
    }

    // behaviour: ACT-111
    #[test]
    fn two_instances_of_one_name_never_live(pod in any_pod(), observed in any_status()) {
        let mut after = observed;
        for _ in 0..3 {
            after = apply(&pod, &after, &actions(&pod, &after));
            let wanted = |name: &str| NAMES.contains(&name) && is_in(&pod, name);
            for (name, live) in live_by_name(&after) {
                prop_assert!(live <= 1 || !wanted(&name), "{name}: {live}");
            }
        }
    }

    #[test]
    fn what_is_kept_is_never_started(pod in any_pod(), observed in any_status()) {
        let actions = actions(&pod, &observed);
        if actions.kill_pod.is_none() {
            for start in &actions.start {
                let name = name_of(&pod, start.role, start.index);
                let running = observed.latest(&name).filter(|latest| latest.state == Running);
                let killed = running.is_none_or(|running| {
                    actions.kill.iter().any(|kill| kill.id == running.id)
                });
                prop_assert!(killed, "{name}");
            }
        }
    }

    #[test]
    fn regular_containers_start_only_after_init_containers(pod in any_pod(), observed in any_status()) {
        let actions = actions(&pod, &observed);
        let starts = |wanted| actions.start.iter().any(|start| start.role == wanted);
        prop_assert!(!(starts(Role::Init) && starts(Role::Regular)), "{actions:?}");
        let order: Vec<_> = actions.start.iter().map(|start| (start.role == Role::Regular, start.role != Role::Ephemeral)).collect();
        prop_assert!(order.is_sorted(), "{actions:?}");
    }

    #[test]
    fn a_pod_that_has_finished_starts_nothing(pod in any_pod(), observed in any_status()) {
        // A pod that finished in one sandbox gets no other, so what it has is all in the newest.
        let newest = observed.sandboxes.first().map(|sandbox| &sandbox.id);
        let in_newest = observed.containers.iter().all(|one| Some(&one.sandbox_id) == newest);
        let may_be = in_newest && comes_from_running_in_order(&pod, &observed);
        if has_finished(&pod, &observed) && observed.has_ready_sandbox() && may_be {
            let actions = actions(&pod, &observed);
            prop_assert!(
                actions.start.iter().all(|start| start.role != Role::Regular)
                    || actions.kill_pod.is_some(),
                "{actions:?}"
            );
        }
    }
}

/// Whether nothing was started behind an init container that failed, as nothing ever is.
fn comes_from_running_in_order(pod: &Pod, observed: &PodStatus) -> bool {
    let in_order: Vec<_> = view::init_containers(pod).iter().chain(view::containers(pod)).collect();
    let inits = view::init_containers(pod).len();
    let failed = in_order[..inits].iter().position(|init| {
        let latest = observed.latest(&init.name);
        latest.is_some_and(|latest| latest.state == Exited && latest.exit_code != 0)
    });
    let behind = failed.map_or(&[][..], |failed| &in_order[failed + 1..]);
    behind.iter().all(|container| observed.latest(&container.name).is_none())
}

fn is_in(pod: &Pod, name: &str) -> bool {
    let regular = view::containers(pod).iter().chain(view::init_containers(pod));
    let mut names = regular
        .map(|container| container.name.clone())
        .chain(view::ephemeral_containers(pod).into_iter().map(|container| container.name));
    names.any(|one| one == name)
}
