//! Merges the computed status of a pod with that of the API server.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::decide::conditions::{CONTAINERS_READY, DISRUPTION_TARGET, FALSE, OWNED, READY, TRUE};
use crate::decide::patch::is_equal_in_api;
use crate::decide::phase::{Phase, held_back};

/// The inputs of the merge.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MergeInput<'a> {
    /// The pod in the API server.
    pub(crate) api: &'a Pod,
    /// The computed status.
    pub(crate) ours: &'a PodStatus,
    /// Whether its containers may still run.
    pub(crate) may_run: bool,
    /// The time now.
    pub(crate) now: Timestamp,
}

/// The status that the API server should have; upstream's `mergePodStatus`. Conditions of other clients and
/// statuses of resource claims are kept, a terminal phase is never left, and a terminal phase
/// is not published while containers may run.
pub(crate) fn merge(input: &MergeInput<'_>) -> PodStatus {
    let none = PodStatus::default();
    let api = input.api.status.as_ref().unwrap_or(&none);
    let mut status = held_back(Some(api), input.ours.clone(), input.may_run);
    if Phase::of(api).is_some_and(Phase::is_terminal) && Phase::of(api) != Phase::of(&status) {
        status.phase.clone_from(&api.phase);
        status.reason.clone_from(&api.reason);
        status.message.clone_from(&api.message);
    }
    if Phase::of(&status).is_some_and(Phase::is_terminal) && status.pod_ips.is_none() {
        // The addresses of a terminated pod are no longer observed.
        status.pod_ip.clone_from(&api.pod_ip);
        status.pod_ips.clone_from(&api.pod_ips);
    }
    status.conditions = Some(conditions(input, api, &status));
    status.start_time = api.start_time.clone().or(status.start_time);
    status.observed_generation = api.observed_generation.max(status.observed_generation);
    status.resource_claim_statuses.clone_from(&api.resource_claim_statuses);
    status.extended_resource_claim_status.clone_from(&api.extended_resource_claim_status);
    let claims = &api.node_allocatable_resource_claim_statuses;
    status.node_allocatable_resource_claim_statuses.clone_from(claims);
    status
}

fn conditions(input: &MergeInput<'_>, api: &PodStatus, status: &PodStatus) -> Vec<PodCondition> {
    let is_owned = |condition: &&PodCondition| OWNED.contains(&condition.type_.as_str());
    let mut all: Vec<PodCondition> =
        listed(api).iter().filter(|condition| !is_owned(condition)).cloned().collect();
    let ours = input.ours.conditions.as_deref().unwrap_or_default();
    let is_terminal = |status: &PodStatus| Phase::of(status).is_some_and(Phase::is_terminal);
    let ends_now = !is_terminal(api) && is_terminal(status);
    for condition in ours {
        if is_owned(&condition) {
            all.push(condition.clone());
        } else if condition.type_ == DISRUPTION_TARGET && ends_now {
            disrupt(&mut all, condition.clone(), input.now);
        }
    }
    if is_terminal(status) {
        settle_readiness(&mut all, Phase::of(status), input.now);
    }
    all
}

/// Adds or replaces the `DisruptionTarget` condition.
fn disrupt(all: &mut Vec<PodCondition>, mut disruption: PodCondition, now: Timestamp) {
    let place = all.iter().position(|condition| condition.type_ == DISRUPTION_TARGET);
    let same = place.map(|place| &all[place]).filter(|old| old.status == disruption.status);
    let since = same.and_then(|old| old.last_transition_time.clone());
    disruption.last_transition_time = since.or(Some(Time(whole(now))));
    match place {
        Some(place) => all[place] = disruption,
        None => all.push(disruption),
    }
}

/// A terminal pod is not ready, regardless of its last observation.
fn settle_readiness(all: &mut [PodCondition], phase: Option<Phase>, now: Timestamp) {
    let is_readiness = |one: &PodCondition| [READY, CONTAINERS_READY].contains(&one.type_.as_str());
    if !all.iter().any(|one| is_readiness(one) && one.status == TRUE) {
        return;
    }
    let reason = if phase == Some(Phase::Failed) { "PodFailed" } else { "PodCompleted" };
    for condition in all.iter_mut().filter(|one| is_readiness(one)) {
        if condition.status != FALSE {
            condition.last_transition_time = Some(Time(whole(now)));
        }
        FALSE.clone_into(&mut condition.status);
        condition.reason = Some(reason.to_owned());
        condition.message = None;
    }
}

/// Whether two statuses need no further write: probe times and observed generations of conditions are
/// ignored, and so are conditions of other clients.
pub(crate) fn is_same(one: &PodStatus, other: &PodStatus) -> bool {
    fn own_conditions(status: &PodStatus) -> Vec<(&str, &str, &str, &str)> {
        fn text(text: Option<&String>) -> &str {
            text.map_or("", String::as_str)
        }
        let is_ours = |one: &&PodCondition| {
            OWNED.contains(&one.type_.as_str()) || one.type_ == DISRUPTION_TARGET
        };
        let mut own_conditions: Vec<_> = listed(status)
            .iter()
            .filter(is_ours)
            .map(|one| {
                (&*one.type_, &*one.status, text(one.reason.as_ref()), text(one.message.as_ref()))
            })
            .collect();
        own_conditions.sort_unstable();
        own_conditions
    }
    let rest = |status: &PodStatus| PodStatus {
        conditions: None,
        resource_claim_statuses: None,
        extended_resource_claim_status: None,
        node_allocatable_resource_claim_statuses: None,
        ..status.clone()
    };
    own_conditions(one) == own_conditions(other) && is_equal_in_api(&rest(one), &rest(other))
}

fn listed(status: &PodStatus) -> &[PodCondition] {
    status.conditions.as_deref().unwrap_or_default()
}

fn whole(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
