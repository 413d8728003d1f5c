//! Decides about a pod that requests other resources while it runs.
//!
//! ```text
//!  desired ─┬─ equal to the allocation ──> nothing to do
//!           ├─ impossible ───────────────> infeasible, until it requests something else
//!           └─ the admission chain, with the other pods ──> allocated, or deferred
//! ```

use std::cmp::Reverse;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use model::admission::{Preemption, Rejection};
use podspec::resources::{self, Amounts, CPU, MEMORY};
use podspec::{Allocation, QosClass, Size, qos_class, view};

use super::admission::{Ability, Decision, Node, undeclared};

/// The decision about a pod that requests other resources than it is allocated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resize {
    /// It has what it requests.
    Same,
    /// The request is allocated.
    Allocate,
    /// The request is allocated after the victims have terminated.
    Preempt(Preemption),
    /// The request is deferred by the chain; it is decided again when resources may be free.
    Deferred(Rejection),
    /// The request is infeasible.
    Infeasible(InfeasibleResize),
}

/// Why a resize is infeasible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InfeasibleResize {
    /// The message.
    pub message: &'static str,
    /// The metric label.
    pub detail: &'static str,
}

/// Decides about a resize; `chain` is the admission decision for the desired pod with the other pods unchanged.
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
        return Resize::Infeasible(InfeasibleResize { message, detail: "plr_feature_gate_off" });
    }
    if !node.can(Ability::InPlacePodVerticalScalingInitContainers)
        && init_containers_change(desired, &wanted, &has)
    {
        let message = "resources for non-sidecar init containers are immutable";
        return Resize::Infeasible(InfeasibleResize { message, detail: "init_feature_gate_off" });
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

/// Whether a non-sidecar init container requests other resources.
fn init_containers_change(desired: &Pod, wanted: &Allocation, has: &Allocation) -> bool {
    let ends = view::init_containers(desired).iter().filter(|one| !view::is_sidecar(one));
    ends.map(|one| &one.name).any(|name| {
        let had = has.containers.get(name);
        had.is_some_and(|had| wanted.containers.get(name) != Some(had))
    })
}

/// What the API server would reject, in its words: pods of manifests have no such check before.
fn impossible(
    desired: &Pod,
    allocated: &Pod,
    wanted: &Allocation,
    has: &Allocation,
) -> Option<InfeasibleResize> {
    let because = |detail, message| Some(InfeasibleResize { message, detail });
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

/// A refused resize.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedResize {
    /// The requested resources.
    pub wanted: Allocation,
    /// Whether the request is infeasible.
    pub infeasible: bool,
    /// The reason.
    pub message: String,
}

/// What to report about a refused resize.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusalReport {
    /// Whether an event is recorded: once for each request.
    pub event: bool,
    /// Whether the status changes.
    pub status: bool,
}

/// Compares a refusal with the previous one.
pub fn refusal_report(before: Option<&RefusedResize>, now: &RefusedResize) -> RefusalReport {
    let same =
        |before: &RefusedResize| before.wanted == now.wanted && before.infeasible == now.infeasible;
    RefusalReport {
        event: !before.is_some_and(same),
        status: before.is_none_or(|before| {
            before.infeasible != now.infeasible || before.message != now.message
        }),
    }
}

/// A requested change of a container: the resource, whether requests or limits, and the kind of change.
pub type Request = (&'static str, &'static str, &'static str);

/// The changes that a pod newly requests, as upstream counts them.
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

/// The message about features that a change needs and the node does not declare. Upstream reports
/// it independently of the decision about the change.
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

/// A resize that waits for a decision.
#[derive(Debug, Clone, Copy)]
pub struct Waiting<'a> {
    /// The desired pod.
    pub desired: &'a Pod,
    /// The allocated pod.
    pub allocated: &'a Pod,
    /// The time since when it waits, if it was decided before.
    pub since: Option<Timestamp>,
}

/// The sort key of waiting resizes: those that request no more come first, then higher priorities, then
/// guaranteed pods, then the longest wait.
pub fn turn(waiting: &Waiting<'_>) -> impl Ord + use<> {
    let Waiting { desired, allocated, since } = *waiting;
    let priority = view::priority(desired).unwrap_or(0);
    let is_guaranteed = qos_class(desired) == QosClass::Guaranteed;
    (requests_more(desired, allocated), Reverse(priority), !is_guaranteed, since.is_none(), since)
}

/// Whether a pod would use more of the node than it does.
fn requests_more(desired: &Pod, allocated: &Pod) -> bool {
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
