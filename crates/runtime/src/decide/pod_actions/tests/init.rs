//! Init containers and sidecars in a usable sandbox.

use k8s_openapi::api::core::v1::Probe;
use model::observed::ContainerState::{self, Created, Exited, Running, Unknown};
use model::probe::ProbeKind;

use testkit::observed::listed_container;

use super::*;
use crate::decide::probe_results::ProbeResult;
use crate::decide::reasons::KillReason;
use crate::decide::test_pods::{container, failed_probe, instance, pod, sidecar, with_inits};

/// A pod with two init containers and a regular one.
fn initializing(policy: &str, inits: Vec<Container>) -> Pod {
    with_inits(pod(policy, vec![container("main")]), inits)
}

fn two() -> Vec<Container> {
    vec![container("one"), container("two")]
}

#[test]
fn first_init_container_starts_when_none_has_run() {
    let actions = actions(&initializing("Always", two()), &in_live_sandbox(vec![]));
    assert_eq!(starts(&actions), [(Role::Init, 0, StartReason::New)]);
}

// behaviour: ACT-20, ACT-21, ACT-23, ACT-24
#[test]
fn init_containers_run_in_order() {
    type Row = (&'static str, ContainerState, i32, Vec<(Role, usize)>);
    let rows: Vec<Row> = vec![
        ("one", Created, 0, vec![(Role::Init, 0)]),
        ("one", Running, 0, vec![]),
        ("one", Exited, 0, vec![(Role::Init, 1)]),
        ("two", Created, 0, vec![(Role::Init, 1)]),
        ("two", Running, 0, vec![]),
        ("two", Exited, 0, vec![(Role::Regular, 0)]),
    ];
    for (name, state, code, expected) in rows {
        let observed = in_live_sandbox(vec![instance("c", name, state, code)]);
        let actions = actions(&initializing("Always", two()), &observed);
        assert_eq!(started(&actions), expected, "{name} {state:?}");
        assert_eq!((actions.kill_pod, actions.kill.len()), (None, 0), "{name} {state:?}");
    }
}

#[test]
fn regular_container_of_an_earlier_sandbox_does_not_prove_initialization() {
    let made = instance("c", "main", Created, 0);
    let old = ContainerStatus { sandbox_id: "old".into(), ..made.clone() };
    let pod = initializing("Always", two());
    assert_eq!(started(&actions(&pod, &in_live_sandbox(vec![old]))), [(Role::Init, 0)]);
    assert_eq!(started(&actions(&pod, &in_live_sandbox(vec![made]))), [(Role::Regular, 0)]);
}

// behaviour: ACT-22
#[test]
fn failed_init_container_restarts_or_fails_the_pod_by_policy() {
    let rules = |codes| with_rule(container("one"), "Restart", codes);
    let mut killed_for_memory = instance("c", "one", Exited, 0);
    killed_for_memory.reason = "OOMKilled".into();
    let failed = || instance("c", "one", Exited, 3);
    let rows = vec![
        ("Always", container("one"), failed(), true),
        ("OnFailure", container("one"), failed(), true),
        ("Never", container("one"), failed(), false),
        ("Never", with_policy(container("one"), "OnFailure"), failed(), true),
        ("Always", with_policy(container("one"), "Never"), failed(), false),
        ("Always", rules(vec![3]), failed(), true),
        ("Always", rules(vec![4]), failed(), false),
        ("Always", container("one"), killed_for_memory.clone(), true),
        ("OnFailure", container("one"), killed_for_memory.clone(), true),
        ("Never", container("one"), killed_for_memory, false),
    ];
    for (policy, one, ended, again) in rows {
        let pod = initializing(policy, vec![one.clone(), container("two")]);
        let actions = actions(&pod, &in_live_sandbox(vec![ended.clone()]));
        let context = format!("{policy} {one:?} {ended:?}");
        if again {
            assert_eq!(started(&actions), [(Role::Init, 0)], "{context}");
            assert_eq!(actions.kill_pod, None, "{context}");
        } else {
            assert_eq!(actions.kill_pod, Some(KillPod::InitFailed), "{context}");
            assert_eq!(actions.start.len(), 0, "{context}");
        }
    }
}

// behaviour: ACT-25
#[test]
fn init_container_in_unknown_state_is_killed_then_restarts_or_fails_the_pod() {
    let observed = in_live_sandbox(vec![instance("c", "one", Unknown, 0)]);
    let again = actions(&initializing("OnFailure", two()), &observed);
    assert_eq!((kills(&again), started(&again)), (vec!["c"], vec![(Role::Init, 0)]));
    let over = actions(&initializing("Never", two()), &observed);
    assert_eq!((over.kill_pod, over.start.len()), (Some(KillPod::InitFailed), 0));
}

// behaviour: ACT-26
#[test]
fn init_containers_are_done_once_a_later_container_exists() {
    for state in [Created, Running] {
        let observed =
            in_live_sandbox(vec![instance("m", "main", state, 0), instance("c", "one", Exited, 1)]);
        let actions = actions(&initializing("Never", two()), &observed);
        assert!(actions.start.iter().all(|start| start.role == Role::Regular), "{state:?}");
        assert_eq!(actions.kill_pod, None, "{state:?}");
    }
    let later = in_live_sandbox(vec![instance("d", "two", Running, 0)]);
    assert!(actions(&initializing("Always", two()), &later).is_nothing());
    // After a reboot every container has exited, including those of the old sandbox.
    let rebooted = in_live_sandbox(vec![instance("m", "main", Exited, 255)]);
    let again = actions(&initializing("Always", two()), &rebooted);
    assert_eq!(started(&again), [(Role::Init, 0)]);
}

// behaviour: ACT-154
#[test]
fn regular_container_ends_before_init_containers_run_again() {
    let lost = || instance("m", "main", Unknown, 0);
    let failed = || instance("c", "one", Exited, 1);
    let runs = || instance("c", "one", Running, 0);
    let rows = [
        // Its exit decides what runs.
        (vec![lost()], vec![]),
        (vec![lost(), failed()], vec![]),
        (vec![lost(), runs()], vec![]),
        // They have completed: it restarts.
        (vec![lost(), instance("d", "two", Exited, 0)], vec![(Role::Regular, 0)]),
    ];
    for (observed, expected) in rows {
        let actions = actions(&initializing("OnFailure", two()), &in_live_sandbox(observed));
        assert_eq!((kills(&actions), started(&actions)), (vec!["m"], expected));
    }
}

// behaviour: ACT-28
#[test]
fn init_container_of_an_earlier_sandbox_does_not_count() {
    for (state, code) in [(Exited, 0), (Exited, 1), (Created, 0)] {
        let old = ContainerStatus { sandbox_id: "old".into(), ..instance("c", "two", state, code) };
        let actions = actions(&initializing("Never", two()), &in_live_sandbox(vec![old]));
        assert_eq!(started(&actions), [(Role::Init, 0)], "{state:?} {code}");
        assert_eq!(actions.kill_pod, None);
    }
}

/// The same pod, which restarts all containers when the regular one exits with 42.
fn starting_over(inits: Vec<Container>) -> Pod {
    let main = with_rule(container("main"), "RestartAllContainers", vec![42]);
    with_inits(pod("Always", vec![main]), inits)
}

// behaviour: ACT-29
#[test]
fn container_created_before_a_restart_of_all_waits_for_its_turn() {
    type Row = (Option<(&'static str, ContainerState)>, &'static str, Vec<(Role, usize)>);
    // Existing containers, the late one, and those to start.
    let rows: Vec<Row> = vec![
        (None, "main", vec![(Role::Init, 0)]),
        (None, "two", vec![(Role::Init, 0)]),
        (None, "one", vec![(Role::Init, 0)]),
        (Some(("one", Running)), "main", vec![]),
        (Some(("one", Running)), "two", vec![]),
        (Some(("one", Exited)), "main", vec![(Role::Init, 1)]),
        (Some(("one", Exited)), "two", vec![(Role::Init, 1)]),
        (Some(("two", Running)), "main", vec![]),
        (Some(("two", Exited)), "main", vec![(Role::Regular, 0)]),
    ];
    for (other, late, expected) in rows {
        let other_one = other.map(|(name, state)| instance("o", name, state, 0));
        let late_one = instance("late", late, Created, 0);
        let observed = in_live_sandbox([late_one].into_iter().chain(other_one).collect());
        let actions = actions(&starting_over(two()), &observed);
        assert_eq!(started(&actions), expected, "{late} beside {other:?}");
        assert_eq!((actions.kill_pod, actions.kill.len()), (None, 0), "{late} beside {other:?}");
        assert_eq!(removals(&actions), Vec::<&str>::new(), "{late} beside {other:?}");
    }
    // A sidecar starts although later containers have started.
    let pod = starting_over(vec![sidecar("side"), container("two")]);
    let made = vec![instance("t", "two", Running, 0), instance("late", "side", Created, 0)];
    assert_eq!(started(&actions(&pod, &in_live_sandbox(made))), [(Role::Sidecar, 0)]);
}

fn probed() -> Container {
    Container { startup_probe: Some(Probe::default()), ..sidecar("side") }
}

// behaviour: ACT-30, ACT-31, ACT-32, ACT-36, ACT-37
#[test]
fn sidecar_always_restarts_and_unblocks_the_next_once_it_runs() {
    type Row = (ContainerState, Vec<(Role, usize)>, bool);
    let rows: Vec<Row> = vec![
        (Created, vec![(Role::Sidecar, 0)], false),
        (Running, vec![(Role::Init, 1)], false),
        (Exited, vec![(Role::Sidecar, 0)], false),
        (Unknown, vec![(Role::Sidecar, 0)], true),
    ];
    for (state, expected, killed) in rows {
        for code in [0, 1] {
            let pod = initializing("Never", vec![sidecar("side"), container("two")]);
            let observed = in_live_sandbox(vec![instance("c", "side", state, code)]);
            let actions = actions(&pod, &observed);
            assert_eq!(started(&actions), expected, "{state:?} {code}");
            assert_eq!(kills(&actions), if killed { vec!["c"] } else { vec![] }, "{state:?}");
            assert_eq!(actions.kill_pod, None, "{state:?}");
        }
    }
    let last = initializing("Always", vec![container("one"), sidecar("side")]);
    let running = in_live_sandbox(vec![instance("c", "side", Running, 0)]);
    assert_eq!(started(&actions(&last, &running)), [(Role::Regular, 0)]);
}

// behaviour: ACT-33
#[test]
fn sidecar_with_a_startup_probe_blocks_the_next_and_restarts_on_failure() {
    let pod = initializing("Always", vec![probed(), container("two")]);
    let observed = in_live_sandbox(vec![instance("c", "side", Running, 0)]);
    let rows = [
        (None, vec![], None),
        (Some(ProbeResult::Success), vec![(Role::Init, 1)], None),
        (
            Some(failed_probe(ProbeKind::Startup)),
            vec![(Role::Sidecar, 0)],
            Some(KillReason::StartupProbe),
        ),
    ];
    for (result, expected, killed) in rows {
        let startup = result.clone().map(|result| ("c".into(), result)).into_iter().collect();
        let probes = ProbeResults { startup, ..ProbeResults::default() };
        let context = SyncContext {
            pod: &pod,
            status: &observed,
            probes: &probes,
            restart_all: false,
            sizes: &Sizes::new(),
            cgroup: CgroupFacts::Unmanaged,
        };
        let actions = pod_actions(&context);
        assert_eq!(started(&actions), expected, "{result:?}");
        let why: Vec<_> = actions.kill.iter().map(|kill| kill.why).collect();
        assert_eq!(why, Vec::from_iter(killed), "{result:?}");
    }
}

// behaviour: ACT-34, ACT-35
#[test]
fn changed_or_unhealthy_sidecar_restarts_after_it_unblocked_the_next_container() {
    let mut changed = sidecar("side");
    changed.image = Some("image:2".to_owned());
    let unhealthy = Container { liveness_probe: Some(Probe::default()), ..sidecar("side") };
    let observed = in_live_sandbox(vec![instance("c", "side", Running, 0)]);
    let liveness = [("c".into(), failed_probe(ProbeKind::Liveness))].into();
    let failed = ProbeResults { liveness, ..ProbeResults::default() };
    let rows = [(changed, KillReason::Changed), (unhealthy, KillReason::LivenessProbe)];
    for (side, why) in rows {
        for (inits, next) in [
            (vec![side.clone(), container("two")], (Role::Init, 1)),
            (vec![side.clone()], (Role::Regular, 0)),
        ] {
            let pod = initializing("Never", inits);
            let context = SyncContext {
                pod: &pod,
                status: &observed,
                probes: &failed,
                restart_all: false,
                sizes: &Sizes::new(),
                cgroup: CgroupFacts::Unmanaged,
            };
            let actions = pod_actions(&context);
            assert_eq!(started(&actions), [(Role::Sidecar, 0), next], "{why:?}");
            assert_eq!(actions.kill[0].why, why);
        }
    }
}

// behaviour: ACT-38
#[test]
fn vanished_sidecar_starts_again_beside_running_containers() {
    let pod = initializing("Always", vec![sidecar("side"), container("two"), sidecar("last")]);
    let main_runs = in_live_sandbox(vec![instance("m", "main", Running, 0)]);
    let both = [(Role::Sidecar, 0), (Role::Sidecar, 2)];
    assert_eq!(started(&actions(&pod, &main_runs)), both);
    let two_runs = in_live_sandbox(vec![instance("t", "two", Running, 0)]);
    assert_eq!(started(&actions(&pod, &two_runs)), [(Role::Sidecar, 0)]);
}

// behaviour: ACT-39
#[test]
fn earlier_sidecars_restart_while_a_later_one_is_starting() {
    let pod = initializing("Always", vec![sidecar("first"), probed(), container("two")]);
    let observed =
        in_live_sandbox(vec![instance("b", "side", Running, 0), instance("a", "first", Exited, 1)]);
    assert_eq!(started(&actions(&pod, &observed)), [(Role::Sidecar, 0)]);
}

// behaviour: ACT-27
#[test]
fn only_the_newest_exited_init_container_is_kept() {
    let observed = in_live_sandbox(vec![
        instance("c2", "one", Exited, 1),
        instance("c1", "one", Exited, 1),
        instance("c0", "one", Unknown, 0),
    ]);
    let pruned = actions(&initializing("Always", two()), &observed);
    assert_eq!(removals(&pruned), ["c1", "c0"]);
    assert_eq!(kills(&pruned), ["c0"]);
    assert_eq!(started(&pruned), [(Role::Init, 0)]);
    // Instances without a status are removed too.
    let ended = ["c2", "c1"].map(|id| instance(id, "one", Exited, 1)).to_vec();
    let observed = RuntimePodStatus {
        older: vec![listed_container("c0", "one", Exited)],
        ..in_live_sandbox(ended)
    };
    let pruned = actions(&initializing("Always", two()), &observed);
    assert_eq!(removals(&pruned), ["c1", "c0"]);
}
