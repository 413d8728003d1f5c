//! The conditions of a pod.

mod initialized;
mod ready;
mod resize;
mod restarting_all;
mod sandbox;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use podspec::{RESIZE_IN_PROGRESS, RESIZE_PENDING};

use crate::decide::container_statuses::Containers;
use crate::decide::input::StatusInput;
use crate::decide::phase::Phase;

const READY_TO_START: &str = "PodReadyToStartContainers";
const INITIALIZED: &str = "Initialized";
pub(crate) const READY: &str = "Ready";
pub(crate) const CONTAINERS_READY: &str = "ContainersReady";
const SCHEDULED: &str = "PodScheduled";
const RESTARTING_ALL: &str = "AllContainersRestarting";
pub(crate) const DISRUPTION_TARGET: &str = "DisruptionTarget";
/// The reason of pods that the kubelet terminates for other pods.
const BY_KUBELET: &str = "TerminationByKubelet";

/// Conditions that only the node writes. All others belong to other clients and are kept.
pub(crate) const OWNED: &[&str] = &[
    READY_TO_START,
    INITIALIZED,
    READY,
    CONTAINERS_READY,
    SCHEDULED,
    RESTARTING_ALL,
    RESIZE_PENDING,
    RESIZE_IN_PROGRESS,
];

pub(crate) const TRUE: &str = "True";
pub(crate) const FALSE: &str = "False";

/// The content of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ConditionState {
    holds: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl ConditionState {
    const YES: Self = Self { holds: true, reason: None, message: None };
    const NO: Self = Self { holds: false, reason: None, message: None };

    fn no(reason: &'static str) -> Self {
        Self { reason: Some(reason), ..Self::NO }
    }
}

/// Whether a status shows that the pod restarts all its containers.
pub fn is_restarting_all(status: &PodStatus) -> bool {
    holds(Some(status), RESTARTING_ALL)
}

/// The conditions of a pod: first those of other clients, then the node's own.
pub fn conditions(
    input: &StatusInput<'_>,
    phase: Phase,
    containers: &Containers,
) -> Vec<PodCondition> {
    let mut all = foreign(input);
    let containers_ready = ready::containers_ready(input.pod, phase, containers);
    let ready = ready::ready(input.pod, &containers_ready, &all);
    let claims = [
        (RESIZE_PENDING, resize::pending(input, phase)),
        (RESIZE_IN_PROGRESS, resize::in_progress(input, phase)),
        (READY_TO_START, Some(sandbox::ready_to_start(input))),
        (INITIALIZED, Some(initialized::initialized(input, phase, containers))),
        (READY, Some(ready)),
        (CONTAINERS_READY, Some(containers_ready)),
        (SCHEDULED, Some(ConditionState::YES)),
        (RESTARTING_ALL, restarting_all::restarting_all(input, phase)),
    ];
    // Stored for every pod, so without spare capacity.
    all.reserve_exact(claims.iter().filter(|(_, claim)| claim.is_some()).count());
    for (type_, claim) in claims {
        all.extend(claim.map(|claim| published(input, type_, claim)));
    }
    all
}

/// Recomputes the `Ready` and `ContainersReady` conditions of a status; the others are kept.
pub(crate) fn update_ready(
    pod: &Pod,
    status: &mut PodStatus,
    phase: Phase,
    containers: &Containers,
    now: Timestamp,
) {
    let containers_ready = ready::containers_ready(pod, phase, containers);
    let ready = ready::ready(pod, &containers_ready, listed(status));
    for (type_, claim) in [(READY, ready), (CONTAINERS_READY, containers_ready)] {
        let old = find(Some(status), type_).cloned();
        let Some(old) = old else { continue };
        let generation = old.observed_generation;
        let new = condition(type_, claim, Some(&old), generation, now);
        let all = status.conditions.iter_mut().flatten();
        for place in all.filter(|one| one.type_ == type_) {
            *place = new.clone();
        }
    }
}

/// The conditions of other clients, as in the API. `DisruptionTarget` has two writers: the one that
/// this node wrote takes precedence, because it is not computed again.
fn foreign(input: &StatusInput<'_>) -> Vec<PodCondition> {
    let of_api = input.pod.status.as_ref().filter(|status| status.conditions.is_some());
    let theirs = of_api.or(input.previous).map(listed).unwrap_or_default();
    let mut kept: Vec<PodCondition> =
        theirs.iter().filter(|one| !OWNED.contains(&one.type_.as_str())).cloned().collect();
    if let Some(disruption) = find(input.base(), DISRUPTION_TARGET) {
        match kept.iter_mut().find(|one| one.type_ == DISRUPTION_TARGET) {
            Some(place) => place.clone_from(disruption),
            None => kept.push(disruption.clone()),
        }
    }
    if let Some(message) = input.failure.and_then(|failure| failure.disruption.as_deref()) {
        let message = Some(message.to_owned());
        let claim = ConditionState { reason: Some(BY_KUBELET), message, ..ConditionState::YES };
        kept.retain(|one| one.type_ != DISRUPTION_TARGET);
        kept.push(published(input, DISRUPTION_TARGET, claim));
    }
    kept
}

/// A condition for the API. Its transition time is kept while its status is unchanged.
fn published(input: &StatusInput<'_>, type_: &str, claim: ConditionState) -> PodCondition {
    let old = find(input.base(), type_);
    let mut generation = input.pod.metadata.generation.filter(|_| type_ != RESTARTING_ALL);
    if type_ == RESIZE_IN_PROGRESS {
        // It refers to the allocated specification, not to later ones.
        generation = old.and_then(|old| old.observed_generation).or(generation);
    }
    let generation = generation.filter(|generation| *generation != 0);
    condition(type_, claim, old, generation, input.now)
}

fn condition(
    type_: &str,
    claim: ConditionState,
    old: Option<&PodCondition>,
    observed_generation: Option<i64>,
    now: Timestamp,
) -> PodCondition {
    let status = if claim.holds { TRUE } else { FALSE };
    // A pending resize has a new transition time when its reason changes.
    let by_reason = matches!(type_, RESIZE_PENDING | RESIZE_IN_PROGRESS);
    let unchanged = old.filter(|old| {
        old.status == status && (!by_reason || old.reason.as_deref() == claim.reason)
    });
    let since = unchanged.and_then(|old| old.last_transition_time.clone());
    PodCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: claim.reason.map(Into::into),
        message: claim.message,
        observed_generation,
        last_transition_time: since.or(Some(Time(now))),
        last_probe_time: None,
    }
}

fn listed(status: &PodStatus) -> &[PodCondition] {
    status.conditions.as_deref().unwrap_or_default()
}

fn find<'a>(status: Option<&'a PodStatus>, type_: &str) -> Option<&'a PodCondition> {
    listed(status?).iter().find(|condition| condition.type_ == type_)
}

/// The status of a condition.
pub(crate) fn status_of<'a>(status: Option<&'a PodStatus>, type_: &str) -> Option<&'a str> {
    find(status, type_).map(|condition| condition.status.as_str())
}

/// Whether a condition exists and is true.
fn holds(status: Option<&PodStatus>, type_: &str) -> bool {
    find(status, type_).is_some_and(|condition| condition.status == TRUE)
}

/// Container names as messages list them.
fn name_list(names: &[&str]) -> String {
    format!("[{}]", names.join(" "))
}
