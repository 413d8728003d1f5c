//! Laws for any pod and any observed status.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{EphemeralContainer, Probe};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::labels;
use model::observed::ContainerState::{Created, Exited, Running, Unknown};
use model::observed::SandboxState::{NotReady, Ready};
use model::observed::SandboxStatus;
use model::probe::ProbeKind;
use podspec::restart::{may_restart_all, restarts_all_after};
use podspec::{definition_hash_hex, view};
use proptest::bool::weighted;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;
use crate::decide::probe_results::ProbeResult;
use crate::decide::test_pods::{container, failed_probe, instance, pod, with_inits};
use crate::decide::{ContainerStart, has_finished};

const REGULAR: [&str; 2] = ["a", "b"];
/// Init containers; sidecars are named `side`.
const INITS: [&str; 5] = ["init", "side1", "init2", "side2", "side3"];
const EPHEMERAL: &str = "debug";
const NAMES: [&str; 8] = ["a", "b", "init", "side1", "init2", "side2", "side3", EPHEMERAL];
const IMAGES: [&str; 2] = ["image:1", "image:2"];

/// The most syncs until the pod is converged: as many as all init containers need to start in order, after
/// everything that existed was removed.
const ROUNDS: usize = 12;

/// The syncs of this pod: one, unless it has init containers or restarts all.
fn rounds(pod: &Pod, state: &RuntimeState) -> usize {
    if !view::init_containers(pod).is_empty() || may_restart_all(pod) {
        return ROUNDS;
    }
    // Late and ephemeral containers are checked once the sandbox exists.
    let has_new_sandbox = matches!(state.actions(pod).sandbox, SandboxPlan::Create { .. });
    // The restart rules of a container killed by its probe are evaluated at the next sync.
    let has_rules = view::containers(pod).iter().any(|one| one.restart_policy_rules.is_some());
    1 + usize::from(has_new_sandbox) + usize::from(has_rules)
}

/// The runtime state of a pod, and other known state.
#[derive(Debug, Clone)]
struct RuntimeState {
    status: RuntimePodStatus,
    probes: ProbeResults,
    /// Whether all containers restart.
    restart_all: bool,
    /// The number of created instances.
    made: u32,
}

impl RuntimeState {
    fn actions(&self, pod: &Pod) -> PodActions {
        let Self { status, probes, restart_all, .. } = self;
        let sizes = Sizes::new();
        let (restart_all, cgroup) = (*restart_all, CgroupFacts::Unmanaged);
        pod_actions(&SyncContext { pod, status, probes, restart_all, sizes: &sizes, cgroup })
    }

    /// The state after all actions succeeded.
    fn apply(&mut self, pod: &Pod, actions: &PodActions) {
        let after = &mut self.status;
        if actions.kill_pod.is_some() {
            after.containers.iter_mut().for_each(exit);
            after.sandboxes.iter_mut().for_each(|sandbox| sandbox.state = NotReady);
        }
        for kill in &actions.kill {
            after.containers.iter_mut().filter(|instance| instance.id == kill.id).for_each(exit);
        }
        after.containers.retain(|one| {
            actions.remove.iter().all(|removal| removal.id != one.id)
                && actions.reset.iter().all(|reset| reset.id != one.id)
        });
        after.sandboxes.retain(|one| !actions.remove_sandboxes.contains(&one.id));
        if let SandboxPlan::Create { attempt, .. } = actions.sandbox {
            after.sandboxes.insert(0, made_sandbox(attempt, true, view::host_network(pod), true));
        }
        for start in &actions.start {
            self.start(pod, start);
        }
        self.restart_all = is_restarting_all(pod, self);
    }

    fn start(&mut self, pod: &Pod, start: &ContainerStart) {
        let name = name_of(pod, start.role, start.index);
        // An instance that never started is started or removed.
        if self.status.latest(&name).is_some_and(|latest| latest.state == Created) {
            let place = self.status.containers.iter().position(|one| *one.name == *name).unwrap();
            self.status.containers.remove(place);
        }
        self.made += 1;
        let started = instance(&format!("{name}-{}", self.made), &name, Running, 0);
        let sandbox_id = self.status.sandboxes[0].id.clone();
        let started = ContainerStatus { sandbox_id, ..started };
        self.status.containers.insert(0, made_from(started, image_of(pod, &name)));
    }
}

/// A sandbox; on the host network it has no address.
fn made_sandbox(attempt: u32, ready: bool, host_network: bool, addressed: bool) -> SandboxStatus {
    let made = sandbox(&format!("s{attempt}"), attempt, if ready { Ready } else { NotReady });
    let ips = if addressed && !host_network { made.ips } else { Vec::new() };
    SandboxStatus { host_network, ips, ..made }
}

fn exit(instance: &mut ContainerStatus) {
    if matches!(instance.state, Running | Unknown) {
        instance.state = Exited;
        instance.exit_code = 137;
    }
}

/// An instance with the hash of this image; without a hash if another client created it.
fn made_from(mut made: ContainerStatus, image: Option<&str>) -> ContainerStatus {
    made.annotations.remove(labels::CONTAINER_HASH);
    let hash = image.map(|image| definition_hash_hex(&made.name, image));
    made.annotations.extend(hash.map(|hash| (labels::CONTAINER_HASH.to_owned(), hash)));
    made
}

fn name_of(pod: &Pod, role: Role, index: usize) -> String {
    match role {
        Role::Regular => view::containers(pod)[index].name.clone(),
        Role::Init | Role::Sidecar => view::init_containers(pod)[index].name.clone(),
        Role::Ephemeral => view::ephemeral_containers(pod)[index].name.clone(),
    }
}

fn specified(pod: &Pod) -> impl Iterator<Item = &Container> {
    view::init_containers(pod).iter().chain(view::containers(pod))
}

fn image_of<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    specified(pod).find(|container| container.name == name)?.image.as_deref()
}

/// As in the pod's conditions: from the exit that triggers it until the last instance is removed.
fn is_restarting_all(pod: &Pod, state: &RuntimeState) -> bool {
    let latest = |container: &Container| state.status.latest(&container.name);
    let any_left = specified(pod).any(|one| latest(one).is_some());
    let asked_for = specified(pod).any(|one| {
        let ended = latest(one).filter(|latest| latest.state == Exited);
        ended.is_some_and(|ended| restarts_all_after(one, ended.exit_code))
    });
    any_left && (asked_for || state.restart_all) && !has_finished(pod, &state.status)
}

/// Whether a pod has terminated, or has nothing left while it is being deleted: it is not synced again.
fn is_over(pod: &Pod, status: &RuntimePodStatus) -> bool {
    let is_deleted = pod.metadata.deletion_timestamp.is_some();
    has_finished(pod, status) || (is_deleted && !status.may_be_alive())
}

fn live_by_name(status: &RuntimePodStatus) -> BTreeMap<String, usize> {
    let mut live = BTreeMap::new();
    for instance in &status.containers {
        if matches!(instance.state, Running | Unknown) {
            *live.entry(instance.name.to_string()).or_default() += 1;
        }
    }
    live
}

/// The result of a probe, if it has one.
fn any_result() -> impl Strategy<Value = Option<ProbeResult>> {
    let failed = failed_probe(ProbeKind::Liveness);
    prop_oneof![Just(None), Just(Some(ProbeResult::Success)), Just(Some(failed))]
}

/// An instance, and the results of its startup and liveness probes.
type Seen = (ContainerStatus, [Option<ProbeResult>; 2]);

fn any_instance() -> impl Strategy<Value = Seen> {
    let states =
        prop_oneof![1 => Just(Created), 3 => Just(Running), 2 => Just(Exited), 1 => Just(Unknown)];
    let image = prop_oneof![4 => select(&IMAGES[..]).prop_map(Some), 1 => Just(None)];
    let place = (select(&NAMES[..]), 0..3usize);
    (place, states, 0..3i32, image, [any_result(), any_result()]).prop_map(
        |((name, sandbox), state, code, image, probes)| {
            let made = made_from(instance("", name, state, code), image);
            (ContainerStatus { sandbox_id: format!("s{sandbox}").into(), ..made }, probes)
        },
    )
}

fn any_observed() -> impl Strategy<Value = (RuntimePodStatus, ProbeResults)> {
    let sandbox = (any::<bool>(), weighted(0.2), weighted(0.8));
    let sandboxes = proptest::collection::vec(sandbox, 0..3);
    let instances = proptest::collection::vec(any_instance(), 0..9);
    (sandboxes, instances).prop_map(|(sandboxes, instances)| {
        let count = u32::try_from(sandboxes.len()).unwrap();
        let sandboxes =
            sandboxes.into_iter().zip(0..).map(|((ready, host_network, addressed), n)| {
                made_sandbox(count - 1 - n, ready, host_network, addressed)
            });
        let mut probes = ProbeResults::default();
        let instances =
            instances.into_iter().zip(0..).map(|((mut one, [startup, liveness]), n)| {
                one.id = format!("{}-old-{n}", one.name).into();
                probes.startup.extend(startup.map(|result| (one.id.clone(), result)));
                probes.liveness.extend(liveness.map(|result| (one.id.clone(), result)));
                one
            });
        let instances = instances.collect();
        (status(sandboxes.collect(), instances), probes)
    })
}

fn any_rule() -> impl Strategy<Value = ContainerRestartRule> {
    let codes = (select(&["In", "NotIn"][..]), subsequence(vec![0, 1, 2, 137], 1..3));
    (codes, select(&["Restart", "RestartAllContainers"][..])).prop_map(
        |((operator, values), action)| ContainerRestartRule {
            action: action.to_owned(),
            exit_codes: Some(ContainerRestartRuleOnExitCodes {
                operator: operator.to_owned(),
                values: Some(values),
            }),
        },
    )
}

/// A container with any image and probes; if it may have its own policy, rules refine it.
fn any_container(
    name: &'static str,
    policies: &'static [&'static str],
) -> impl Strategy<Value = Container> {
    let policy = prop_oneof![2 => Just(None), 1 => select(policies).prop_map(Some)];
    let rules = proptest::option::weighted(0.5, any_rule());
    (select(&IMAGES[..]), policy, rules, any::<[bool; 2]>()).prop_map(
        move |(image, policy, rule, [startup, liveness])| Container {
            image: Some(image.to_owned()),
            restart_policy: policy.map(str::to_owned),
            restart_policy_rules: policy.and(rule).map(|rule| vec![rule]),
            startup_probe: startup.then(Probe::default),
            liveness_probe: liveness.then(Probe::default),
            ..container(name)
        },
    )
}

fn any_init(name: &'static str) -> impl Strategy<Value = Container> {
    let is_sidecar = name.starts_with("side");
    any_container(name, &["OnFailure", "Never"]).prop_map(move |init| {
        if is_sidecar {
            let restart_policy = Some("Always".to_owned());
            Container { restart_policy, restart_policy_rules: None, ..init }
        } else {
            Container { startup_probe: None, liveness_probe: None, ..init }
        }
    })
}

fn any_pod() -> impl Strategy<Value = Pod> {
    let policy = select(&["Always", "OnFailure", "Never"][..]);
    let regular = REGULAR.map(|name| any_container(name, &["Always", "OnFailure", "Never"]));
    let inits = INITS.map(any_init);
    let order = subsequence(vec![0, 1, 2, 3, 4], 0..=INITS.len()).prop_shuffle();
    // On the host network, and being deleted.
    let rarely = (weighted(0.2), weighted(0.1));
    (policy, regular, inits, order, any::<bool>(), rarely).prop_map(
        |(policy, regular, inits, order, debug, (host_network, deleted))| {
            let inits = order.into_iter().map(|place| inits[place].clone()).collect();
            let mut pod = with_inits(pod(policy, regular.into()), inits);
            let ephemeral = EphemeralContainer { name: EPHEMERAL.into(), ..Default::default() };
            let spec = pod.spec.as_mut().unwrap();
            spec.ephemeral_containers = debug.then(|| vec![ephemeral]);
            spec.host_network = host_network.then_some(true);
            pod.metadata.deletion_timestamp = deleted.then_some(Time(Timestamp::UNIX_EPOCH));
            pod
        },
    )
}

/// A pod, and its runtime state.
fn any_state() -> impl Strategy<Value = (Pod, RuntimeState)> {
    (any_pod(), any_observed(), any::<bool>()).prop_map(|(pod, (status, probes), marked)| {
        let marked = marked && may_restart_all(&pod);
        let mut state = RuntimeState { status, probes, restart_all: marked, made: 0 };
        state.restart_all = is_restarting_all(&pod, &state);
        (pod, state)
    })
}

/// Instances that run although they should be replaced: of another definition, or with failed
/// probes. A sidecar without a startup probe result is left alone.
fn stale<'a>(pod: &'a Pod, state: &'a RuntimeState) -> impl Iterator<Item = &'a ContainerStatus> {
    let sidecars = view::init_containers(pod).iter().filter(|init| view::is_sidecar(init));
    let lasting = sidecars.map(|one| (one, true));
    let lasting = lasting.chain(view::containers(pod).iter().map(|one| (one, false)));
    lasting.filter_map(|(container, is_sidecar)| {
        let latest = state.status.latest(&container.name);
        let running = latest.filter(|latest| latest.state == Running)?;
        let waits = is_sidecar && container.startup_probe.is_some();
        // A sidecar's probes count only if it has them.
        let counts = |has: bool| has || !is_sidecar;
        let failed = |result: Option<&ProbeResult>| matches!(result, Some(ProbeResult::Failure(_)));
        let unhealthy = (failed(state.probes.liveness.get(&running.id))
            && counts(container.liveness_probe.is_some()))
            || (failed(state.probes.startup.get(&running.id)) && counts(false));
        ((is_changed(container, running) || unhealthy) && !waits).then_some(running)
    })
}

fn is_changed(container: &Container, running: &ContainerStatus) -> bool {
    let image = container.image.as_deref().unwrap_or_default();
    let hash = definition_hash_hex(&container.name, image);
    running.annotations.get(labels::CONTAINER_HASH).is_some_and(|made| *made != hash)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    // behaviour: ACT-110
    #[test]
    fn pod_is_converged_after_its_actions((pod, mut state) in any_state()) {
        // A new sandbox starts from its first init container; each round may start the next one. A
        // running init container is waited for.
        for _ in 0..rounds(&pod, &state) {
            if is_over(&pod, &state.status) {
                return Ok(());
            }
            let actions = state.actions(&pod);
            state.apply(&pod, &actions);
        }
        if is_over(&pod, &state.status) {
            return Ok(());
        }
        let left = state.actions(&pod);
        prop_assert!(left.is_nothing(), "{left:?} for {state:?}");
        let stale = stale(&pod, &state).next();
        prop_assert!(stale.is_none(), "{stale:?} should have been replaced");
    }

    // behaviour: ACT-111
    #[test]
    fn two_instances_of_one_container_never_run((pod, mut state) in any_state()) {
        for _ in 0..ROUNDS {
            let actions = state.actions(&pod);
            state.apply(&pod, &actions);
            // Containers that are not in the spec do not restart with the pod.
            let has_ephemeral = !view::ephemeral_containers(&pod).is_empty();
            let counts = |name: &str| {
                specified(&pod).any(|one| one.name == name)
                    || (name == EPHEMERAL && has_ephemeral && actions.reset.is_empty())
            };
            for (name, live) in live_by_name(&state.status) {
                prop_assert!(live <= 1 || !counts(&name), "{name}: {live}");
            }
        }
    }

    #[test]
    fn kept_container_is_never_started((pod, state) in any_state()) {
        let actions = state.actions(&pod);
        if actions.kill_pod.is_none() {
            for start in &actions.start {
                let name = name_of(&pod, start.role, start.index);
                let running = state.status.latest(&name).filter(|latest| latest.state == Running);
                let killed = running.is_none_or(|running| {
                    actions.kill.iter().any(|kill| kill.id == running.id)
                });
                prop_assert!(killed, "{name}");
            }
        }
    }

    #[test]
    fn regular_containers_start_after_init_containers((pod, state) in any_state()) {
        let actions = state.actions(&pod);
        let starts = |wanted| actions.start.iter().any(|start| start.role == wanted);
        prop_assert!(!(starts(Role::Init) && starts(Role::Regular)), "{actions:?}");
        let order: Vec<_> = actions.start.iter().map(|start| (start.role == Role::Regular, start.role != Role::Ephemeral)).collect();
        prop_assert!(order.is_sorted(), "{actions:?}");
        let inits = actions.start.iter().filter(|start| start.role.is_init());
        let places: Vec<_> = inits.map(|start| start.index).collect();
        prop_assert!(places.is_sorted_by(|one, next| one < next), "{actions:?}");
    }

    #[test]
    fn finished_pod_starts_nothing((pod, state) in any_state()) {
        let observed = &state.status;
        // A pod that finished in one sandbox gets no other, so all its instances are in the newest.
        let newest = observed.sandboxes.first().map(|sandbox| &sandbox.id);
        let in_newest = observed.containers.iter().all(|one| Some(&one.sandbox_id) == newest);
        let may_be = in_newest && comes_from_running_in_order(&pod, observed);
        if has_finished(&pod, observed) && observed.has_ready_sandbox() && may_be {
            let actions = state.actions(&pod);
            prop_assert!(
                actions.start.iter().all(|start| start.role != Role::Regular)
                    || actions.kill_pod.is_some(),
                "{actions:?}"
            );
        }
    }
}

/// Whether nothing was started after a failed init container.
fn comes_from_running_in_order(pod: &Pod, observed: &RuntimePodStatus) -> bool {
    let in_order: Vec<_> = view::init_containers(pod).iter().chain(view::containers(pod)).collect();
    let inits = view::init_containers(pod).len();
    let failed = in_order[..inits].iter().position(|init| {
        let latest = observed.latest(&init.name);
        latest.is_some_and(|latest| latest.state == Exited && latest.exit_code != 0)
    });
    let behind = failed.map_or(&[][..], |failed| &in_order[failed + 1..]);
    behind.iter().all(|container| observed.latest(&container.name).is_none())
}
