//! What becomes of a pod that asks for other resources while it runs.
//!
//! ```text
//!  desired ─┬─ the same as it has ──> nothing to do
//!           ├─ can never be ────────> infeasible, until it asks for something else
//!           └─ the chain of admission, beside the others ──> it gets it, or it waits for room
//! ```

use std::cmp::Reverse;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use model::admission::{Preemption, Rejection};
use podspec::resources::{self, Amounts, CPU, MEMORY};
use podspec::{Allocation, QosClass, Size, qos_class, view};

use super::admission::{Ability, Decision, Node, undeclared};

/// What to do about a pod that asks for other resources than it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resize {
    /// It has what it asks for.
    Same,
    /// It gets it.
    Allocate,
    /// It gets it after others have gone.
    Preempt(Preemption),
    /// Not now, as the chain says; it is asked again when there may be room.
    Deferred(Rejection),
    /// Never, as it stands.
    Infeasible(Impossible),
}

/// Why a resize can never be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Impossible {
    /// In a sentence.
    pub message: &'static str,
    /// In a word, as it is counted.
    pub detail: &'static str,
}

/// Decides; `chain` says whether the pod as it wants to be would be let in beside the others.
pub fn resize(
    desired: &Pod,
    allocated: &Pod,
    node: &Node,
    chain: impl FnOnce() -> Decision,
) -> Resize {
    let (wanted, has) = (Allocation::of(desired), Allocation::of(allocated));
    if wanted == has {
        return Resize::Same;
    }
    if wanted.whole != has.whole && !node.can(Ability::InPlacePodLevelResourcesVerticalScaling) {
        let message = "InPlacePodLevelResourcesVerticalScaling is disabled";
        return Resize::Infeasible(Impossible { message, detail: "plr_feature_gate_off" });
    }
    if !node.can(Ability::InPlacePodVerticalScalingInitContainers)
        && init_containers_change(desired, &wanted, &has)
    {
        let message = "resources for non-sidecar init containers are immutable";
        return Resize::Infeasible(Impossible { message, detail: "init_feature_gate_off" });
    }
    if let Some(why) = impossible(desired, allocated, &wanted, &has) {
        return Resize::Infeasible(why);
    }
    match chain() {
        Decision::Admit => Resize::Allocate,
        Decision::Preempt(plan) => Resize::Preempt(plan),
        Decision::Reject(rejection) => Resize::Deferred(rejection),
    }
}

/// Whether an init container that must end is to have other resources.
fn init_containers_change(desired: &Pod, wanted: &Allocation, has: &Allocation) -> bool {
    let ends = view::init_containers(desired).iter().filter(|one| !view::is_sidecar(one));
    ends.map(|one| &one.name).any(|name| {
        let had = has.containers.get(name);
        had.is_some_and(|had| wanted.containers.get(name) != Some(had))
    })
}

/// What an API server would not let anybody ask for, in its words: a manifest meets none.
fn impossible(
    desired: &Pod,
    allocated: &Pod,
    wanted: &Allocation,
    has: &Allocation,
) -> Option<Impossible> {
    let because = |detail, message| Some(Impossible { message, detail });
    if qos_class(desired) != qos_class(allocated) {
        let message = "Pod QOS Class may not change as a result of resizing";
        return because("qos_class_change", message);
    }
    match (has.whole, wanted.whole) {
        (Some(_), None) => {
            return because("removal", "pod-level resources cannot be removed");
        }
        (Some(has), Some(wanted)) if lacks(request(wanted), request(has)) => {
            return because("removal", "pod-level resource requests cannot be removed");
        }
        (Some(has), Some(wanted)) if lacks(limit(wanted), limit(has)) => {
            return because("removal", "pod-level resource limits cannot be removed");
        }
        _ => {}
    }
    let both = has.containers.iter().filter_map(|(name, has)| {
        let wanted = wanted.containers.get(name)?;
        Some((*has, *wanted))
    });
    let both: Vec<(Size, Size)> = both.collect();
    if both.iter().any(|(has, wanted)| lacks(request(*wanted), request(*has))) {
        return because("removal", "resource requests cannot be removed");
    }
    if both.iter().any(|(has, wanted)| lacks(limit(*wanted), limit(*has))) {
        return because("removal", "resource limits cannot be removed");
    }
    None
}

fn request(size: Size) -> [i64; 2] {
    [size.cpu_request, size.memory_request]
}

fn limit(size: Size) -> [i64; 2] {
    [size.cpu_limit, size.memory_limit]
}

fn lacks(wanted: [i64; 2], has: [i64; 2]) -> bool {
    wanted.into_iter().zip(has).any(|(wanted, has)| wanted == 0 && has != 0)
}

/// A resize that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// What the pod asks for.
    pub wanted: Allocation,
    /// Whether it will never get it.
    pub infeasible: bool,
    /// Why not.
    pub message: String,
}

/// What is new of a resize that was refused, again perhaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusalNews {
    /// Whether people hear of it: once for each thing that the pod asks for.
    pub event: bool,
    /// Whether its status says something else.
    pub status: bool,
}

/// Compares a refusal with the one before.
pub fn refusal_news(before: Option<&Refused>, now: &Refused) -> RefusalNews {
    let same =
        |before: &Refused| before.wanted == now.wanted && before.infeasible == now.infeasible;
    RefusalNews {
        event: !before.is_some_and(same),
        status: before.is_none_or(|before| {
            before.infeasible != now.infeasible || before.message != now.message
        }),
    }
}

/// What is asked for anew of a container: the resource, whether requests or limits, and how it changes.
pub type Request = (&'static str, &'static str, &'static str);

/// What a pod asks for that it did not ask for before, as upstream counts it.
pub fn requested(before: &Pod, now: &Pod) -> Vec<Request> {
    let (before, now) = (Allocation::of(before), Allocation::of(now));
    let mut all = Vec::new();
    for (name, now) in now.containers.iter() {
        let Some(before) = before.containers.get(name) else { continue };
        let amounts = [
            (MEMORY, "requests", before.memory_request, now.memory_request),
            (MEMORY, "limits", before.memory_limit, now.memory_limit),
            (CPU, "requests", before.cpu_request, now.cpu_request),
            (CPU, "limits", before.cpu_limit, now.cpu_limit),
        ];
        all.extend(amounts.into_iter().filter_map(|(resource, requirement, before, now)| {
            let operation = match (before, now) {
                (before, now) if before == now => return None,
                (0, _) => "add",
                (_, 0) => "remove",
                (before, now) if now > before => "increase",
                _ => "decrease",
            };
            Some((resource, requirement, operation))
        }));
    }
    all
}

/// What a change of a pod needs that the node has to declare and does not, in a sentence. Upstream tells
/// it beside what becomes of the change.
pub fn undeclared_for_change(before: &Pod, now: &Pod, node: &Node) -> Option<String> {
    let (had, wanted) = (Allocation::of(before), Allocation::of(now));
    let needed = [
        (Ability::InPlacePodLevelResourcesVerticalScaling, wanted.whole != had.whole),
        (
            Ability::InPlacePodVerticalScalingInitContainers,
            init_containers_change(now, &wanted, &had),
        ),
    ];
    let needed = needed.into_iter().filter(|(_, needed)| *needed);
    undeclared(needed.map(|(ability, _)| ability), node)
}

/// A resize that waits.
#[derive(Debug, Clone, Copy)]
pub struct Waiting<'a> {
    /// As the pod wants to be.
    pub desired: &'a Pod,
    /// As it is.
    pub allocated: &'a Pod,
    /// Since when it waits, if it was looked at before.
    pub since: Option<Timestamp>,
}

/// What orders resizes that wait: those that ask for no more come first, then higher priorities, then
/// pods that are promised all that they use, then who has waited longest.
pub fn turn(waiting: &Waiting<'_>) -> impl Ord + use<> {
    let Waiting { desired, allocated, since } = *waiting;
    let priority = view::priority(desired).unwrap_or(0);
    let is_guaranteed = qos_class(desired) == QosClass::Guaranteed;
    (asks_for_more(desired, allocated), Reverse(priority), !is_guaranteed, since.is_none(), since)
}

/// Whether a pod would take more of the node than it does.
fn asks_for_more(desired: &Pod, allocated: &Pod) -> bool {
    let (wanted, has) = (resources::pod_requests(desired), resources::pod_requests(allocated));
    let more = |name: &str| {
        let of = |amounts: &Amounts| amounts.get(name).copied();
        match (of(&wanted), of(&has)) {
            (Some(wanted), Some(has)) => wanted > has,
            (Some(wanted), None) => !wanted.is_zero(),
            (None, _) => false,
        }
    };
    more(CPU) || more(MEMORY)
}

#[cfg(test)]
#[path = "resize_tests.rs"]
mod tests;
