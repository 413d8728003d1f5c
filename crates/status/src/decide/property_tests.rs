//! Properties of the statuses of any pod in any observed state.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{
    Container, ContainerRestartRule, ContainerRestartRuleOnExitCodes, ContainerStatus, Pod,
    PodStatus,
};
use model::observed::{self, ContainerState, SandboxState, SandboxStatus};
use model::pod_failure::PodFailure;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::decide::test_pods::{
    Harness, at, condition, container, ended, pod, running, sandbox, sidecar, time, waiting,
    with_ephemeral, with_init,
};
use crate::decide::{Phase, Waiting, summary};

const INITS: [&str; 2] = ["init", "beside"];
const REGULAR: [&str; 2] = ["main", "second"];
const EPHEMERAL: &str = "look";
/// The names of instances: those of the pod's containers, and an unknown one.
const NAMES: [&str; 6] = ["init", "beside", "main", "second", "look", "alien"];

fn any_time() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        (0_i64..100).prop_map(at),
        (0_i64..100_000).prop_map(|ms| at(50) + SignedDuration::from_millis(ms)),
        Just(Timestamp::MIN),
        Just(Timestamp::MAX),
    ]
}

fn any_exit_code() -> impl Strategy<Value = i32> {
    prop_oneof![Just(0), Just(1), Just(7), any::<i32>()]
}

fn any_rules() -> impl Strategy<Value = Option<Vec<ContainerRestartRule>>> {
    let rule =
        (select(&["Restart", "RestartAllContainers", "Dance"][..]), select(&["In", "NotIn"][..]))
            .prop_map(|(action, operator)| ContainerRestartRule {
                action: action.to_owned(),
                exit_codes: Some(ContainerRestartRuleOnExitCodes {
                    operator: operator.to_owned(),
                    values: Some(vec![7]),
                }),
            });
    option::weighted(0.3, vec(rule, 1..3))
}

fn any_container(name: &'static str) -> impl Strategy<Value = Container> {
    let own = option::weighted(0.3, select(&["Always", "OnFailure", "Never"][..]));
    (own, any_rules()).prop_map(move |(own, rules)| Container {
        restart_policy: own.map(Into::into),
        restart_policy_rules: rules,
        ..container(name)
    })
}

prop_compose! {
    fn any_pod()(
        policy in select(&["Always", "OnFailure", "Never"][..]),
        regular in (any_container(REGULAR[0]), any_container(REGULAR[1])),
        inits in (any::<bool>(), any::<bool>(), any_container(INITS[0])),
        look in any::<bool>(),
        generation in option::of(0_i64..3),
        (deleted, host_network, is_static) in any::<(bool, bool, bool)>(),
        of_api in option::of(any_status()).boxed(),
    ) -> Pod {
        let mut pod = pod(policy, &[]);
        // Sorted by name in the status, not here.
        pod.spec.as_mut().unwrap().containers = vec![regular.1, regular.0];
        let mut init = Vec::new();
        init.extend(inits.0.then_some(inits.2));
        init.extend(inits.1.then(|| sidecar(INITS[1])));
        if !init.is_empty() {
            pod = with_init(pod, init);
        }
        if look {
            pod = with_ephemeral(pod, &[EPHEMERAL]);
        }
        pod.metadata.generation = generation;
        pod.metadata.deletion_timestamp = deleted.then(|| time(90));
        pod.spec.as_mut().unwrap().host_network = Some(host_network);
        if is_static {
            let source = ("kubernetes.io/config.source".to_owned(), "file".to_owned());
            pod.metadata.annotations = Some([source].into());
        }
        pod.status = of_api;
        pod
    }
}

fn any_state() -> impl Strategy<Value = ContainerState> {
    use ContainerState::{Created, Exited, Running, Unknown};
    select(&[Created, Running, Exited, Unknown][..])
}

prop_compose! {
    fn any_instance()(
        name in select(&NAMES[..]),
        number in 0_u32..4,
        state in any_state(),
        exit_code in any_exit_code(),
        times in (any_time(), option::of(any_time()), option::of(any_time())),
        count in select(&["0", "1", "3", "2147483647", "-1", "x"][..]),
        message in "[a-é]{0,3}",
    ) -> observed::ContainerStatus {
        let made = crate::decide::test_pods::instance(&format!("{name}-{number}"), state, exit_code);
        let mut annotations = made.annotations.clone();
        for old in annotations.values_mut() {
            count.clone_into(old);
        }
        observed::ContainerStatus {
            created_at: times.0,
            started_at: times.1,
            finished_at: times.2,
            message: message.into(),
            annotations,
            ..made
        }
    }
}

fn any_sandbox() -> impl Strategy<Value = SandboxStatus> {
    (any::<(bool, bool, bool)>(), any_time()).prop_map(|((ready, host_network, ip), created_at)| {
        let made = sandbox(if ready { SandboxState::Ready } else { SandboxState::NotReady });
        let ips = if ip { made.ips.clone() } else { vec![] };
        SandboxStatus { host_network, ips, created_at, ..made }
    })
}

fn any_observation() -> impl Strategy<Value = observed::RuntimePodStatus> {
    (vec(any_sandbox(), 0..3), vec(any_instance(), 0..6)).prop_map(|(sandboxes, mut containers)| {
        // Ids are unique in a runtime.
        let mut ids = BTreeSet::new();
        containers.retain(|one| ids.insert(one.id.clone()));
        let ips = sandboxes.first().map(|newest| newest.ips.clone()).unwrap_or_default();
        let nothing = observed::RuntimePodStatus::empty("uid".into());
        observed::RuntimePodStatus { ips, sandboxes, containers, ..nothing }
    })
}

prop_compose! {
    fn any_container_status(name: &'static str)(
        state in option::of(prop_oneof![
            any_time().prop_map(|_| running(21)),
            select(&["", "ContainerCreating", "CrashLoopBackOff"][..]).prop_map(waiting),
            any_exit_code().prop_map(ended),
        ]),
        last_state in option::of(any_exit_code().prop_map(ended)),
        restart_count in prop_oneof![0..5, Just(i32::MAX)],
        number in option::of(0_u32..4),
        (ready, started) in any::<(bool, Option<bool>)>(),
    ) -> ContainerStatus {
        ContainerStatus {
            name: name.to_owned(),
            state,
            last_state,
            restart_count,
            ready,
            started,
            container_id: number.map(|number| format!("containerd://{name}-{number}")),
            ..ContainerStatus::default()
        }
    }
}

/// A status by any writer, with or without statuses of the containers.
fn any_status() -> BoxedStrategy<PodStatus> {
    let lists = (
        option::of((any_container_status("main").boxed(), any_container_status("second").boxed())),
        option::of((any_container_status("init").boxed(), any_container_status("beside").boxed())),
        option::of(any_container_status("look").boxed()),
    );
    let types = select(
        &["Ready", "Initialized", "DisruptionTarget", "AllContainersRestarting", "ex.io/up"][..],
    );
    let conditions = vec((types, select(&["True", "False"][..])), 0..4);
    let phase = option::of(select(&["Pending", "Running", "Succeeded", "Failed", "Unknown"][..]));
    let times = (option::of(any_time()), option::of(0_i64..3));
    (lists, option::of(conditions), phase, option::of("[A-Z]?"), times)
        .prop_map(|((regular, init, look), conditions, phase, reason, (start, generation))| {
            let conditions = conditions.map(|all| {
                let by_type: BTreeMap<&str, &str> = all.into_iter().collect();
                by_type.into_iter().map(|(type_, says)| condition(type_, says)).collect()
            });
            PodStatus {
                container_statuses: regular.map(|(a, b)| vec![a, b]),
                init_container_statuses: init.map(|(a, b)| vec![a, b]),
                ephemeral_container_statuses: look.map(|look| vec![look]),
                conditions,
                phase: phase.map(Into::into),
                message: reason.clone(),
                reason,
                start_time: start.map(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time),
                observed_generation: generation,
                ..PodStatus::default()
            }
        })
        .boxed()
}

prop_compose! {
    fn any_input()(
        pod in any_pod().boxed(),
        observed in any_observation().boxed(),
        previous in option::of(any_status()).boxed(),
        failing in vec(select(&NAMES[..]), 0..3),
        failed in option::weighted(0.1, Just("Evicted")),
        stopped_for_good in any::<bool>(),
        now in any_time(),
    ) -> Harness {
        let failure = failed.map(|reason| PodFailure { reason, message: "no room".to_owned(), disruption: None });
        let mut harness = Harness { observed, previous, failure, stopped_for_good, now, ..Harness::new(pod, vec![]) };
        let wait = Waiting { reason: "CrashLoopBackOff", message: String::new() };
        harness.start_failures = failing.into_iter().map(|name| (name.to_owned(), wait.clone())).collect();
        harness
    }
}

fn all_statuses(status: &PodStatus) -> Vec<(&'static str, Vec<ContainerStatus>)> {
    let list = |list: &Option<Vec<ContainerStatus>>| list.clone().unwrap_or_default();
    vec![
        ("init", list(&status.init_container_statuses)),
        ("regular", list(&status.container_statuses)),
        ("ephemeral", list(&status.ephemeral_container_statuses)),
    ]
}

proptest! {
    #[test]
    fn same_input_yields_same_status(harness in any_input().boxed(), later in 0_i64..1_000_000) {
        let first = harness.status();
        let now = harness.now.saturating_add(SignedDuration::from_secs(later)).unwrap();
        let again = Harness { now, previous: Some(first.clone()), ..harness };
        prop_assert_eq!(again.status(), first);
    }

    #[test]
    fn terminal_phase_is_final(
        harness in any_input().boxed(),
        observations in vec((any_observation(), any::<bool>()), 1..6),
    ) {
        let mut harness = harness;
        let mut over = None;
        for (observed, stopped_for_good) in observations {
            harness.observed = observed;
            harness.stopped_for_good = stopped_for_good;
            let status = harness.status();
            let phase = Phase::of(&status).unwrap();
            if let Some(over) = over {
                prop_assert_eq!(phase, over);
            }
            over = phase.is_terminal().then_some(phase);
            harness.previous = Some(status);
        }
    }

    #[test]
    fn each_container_has_exactly_one_status(harness in any_input().boxed()) {
        let spec = harness.pod.spec.as_ref().unwrap();
        let names = |list: Vec<ContainerStatus>| -> Vec<String> {
            list.into_iter().map(|one| one.name).collect()
        };
        let mut statuses = all_statuses(&harness.status()).into_iter().map(|(_, list)| names(list));
        let init: Vec<String> =
            spec.init_containers.iter().flatten().map(|one| one.name.clone()).collect();
        let ephemeral: Vec<String> =
            spec.ephemeral_containers.iter().flatten().map(|one| one.name.clone()).collect();
        prop_assert_eq!(statuses.next().unwrap(), init);
        prop_assert_eq!(statuses.next().unwrap(), REGULAR.to_vec());
        prop_assert_eq!(statuses.next().unwrap(), ephemeral);
    }

    #[test]
    fn each_container_is_in_exactly_one_state(harness in any_input().boxed()) {
        for (_, list) in all_statuses(&harness.status()) {
            for one in list {
                let state = one.state.unwrap();
                let states = [
                    state.waiting.is_some(),
                    state.running.is_some(),
                    state.terminated.is_some(),
                ];
                prop_assert_eq!(states.into_iter().filter(|is| *is).count(), 1);
                prop_assert!(!one.ready || state.waiting.is_none());
                let last = one.last_state.unwrap_or_default();
                prop_assert!(last.waiting.is_none() && last.running.is_none());
            }
        }
    }

    #[test]
    fn restart_counts_never_shrink(
        harness in any_input().boxed(),
        observations in vec(any_observation(), 1..6),
    ) {
        let mut harness = harness;
        for observed in observations {
            let before: BTreeMap<_, _> =
                all_statuses(harness.input().base().unwrap_or(&PodStatus::default()))
                    .into_iter()
                    .flat_map(|(kind, list)| {
                        list.into_iter().map(move |one| ((kind, one.name), one.restart_count))
                    })
                    .collect();
            harness.observed = observed;
            let status = harness.status();
            for (kind, list) in all_statuses(&status) {
                for one in list {
                    let before = before.get(&(kind, one.name.clone())).copied().unwrap_or(0);
                    prop_assert!(one.restart_count >= before, "{kind} {}", one.name);
                }
            }
            harness.previous = Some(status);
        }
    }

    #[test]
    fn each_condition_exists_once(harness in any_input().boxed()) {
        let status = harness.status();
        let mut types: Vec<_> = status.conditions.iter().flatten().map(|one| &one.type_).collect();
        let all = types.len();
        types.sort();
        types.dedup();
        prop_assert_eq!(types.len(), all);
        for wanted in ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"] {
            prop_assert!(types.iter().any(|type_| *type_ == wanted), "{wanted}");
        }
    }

    #[test]
    fn every_status_has_a_summary(harness in any_input().boxed(), status in any_status()) {
        summary(&harness.pod, &status, harness.now);
        let line = summary(&harness.pod, &harness.status(), harness.now);
        let (ready, all) = line.ready.split_once('/').unwrap();
        prop_assert!(ready.parse::<usize>().unwrap() <= all.parse::<usize>().unwrap());
        prop_assert!(!line.status.is_empty());
        prop_assert!(!line.restarts.to_string().is_empty());
    }
}
