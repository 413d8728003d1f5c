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
use podspec::resources::{self, Amounts, CPU, MEMORY};
use podspec::{Allocation, QosClass, Size, qos_class, view};

use super::admission::{Decision, Preemption};

/// What to do about a pod that asks for other resources than it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resize {
    /// It has what it asks for.
    Same,
    /// It gets it.
    Allocate,
    /// It gets it after others have gone.
    Preempt(Preemption),
    /// Not now; it is asked again when there may be room.
    Deferred(String),
    /// Never, as it stands.
    Infeasible(&'static str),
}

/// Decides; `chain` says whether the pod as it wants to be would be let in beside the others.
pub fn resize(desired: &Pod, allocated: &Pod, chain: impl FnOnce() -> Decision) -> Resize {
    let (wanted, has) = (Allocation::of(desired), Allocation::of(allocated));
    if wanted == has {
        return Resize::Same;
    }
    if let Some(why) = impossible(desired, allocated, &wanted, &has) {
        return Resize::Infeasible(why);
    }
    match chain() {
        Decision::Admit => Resize::Allocate,
        Decision::Preempt(plan) => Resize::Preempt(plan),
        Decision::Reject(rejection) => Resize::Deferred(rejection.message),
    }
}

/// What an API server would not let anybody ask for, in its words: a manifest meets none.
fn impossible(
    desired: &Pod,
    allocated: &Pod,
    wanted: &Allocation,
    has: &Allocation,
) -> Option<&'static str> {
    if qos_class(desired) != qos_class(allocated) {
        return Some("Pod QOS Class may not change as a result of resizing");
    }
    match (has.whole, wanted.whole) {
        (Some(_), None) => return Some("pod-level resources cannot be removed"),
        (Some(has), Some(wanted)) if lacks(request(wanted), request(has)) => {
            return Some("pod-level resource requests cannot be removed");
        }
        (Some(has), Some(wanted)) if lacks(limit(wanted), limit(has)) => {
            return Some("pod-level resource limits cannot be removed");
        }
        _ => {}
    }
    let both = has.containers.iter().filter_map(|(name, has)| {
        let wanted = wanted.containers.get(name)?;
        Some((*has, *wanted))
    });
    let both: Vec<(Size, Size)> = both.collect();
    if both.iter().any(|(has, wanted)| lacks(request(*wanted), request(*has))) {
        return Some("resource requests cannot be removed");
    }
    if both.iter().any(|(has, wanted)| lacks(limit(*wanted), limit(*has))) {
        return Some("resource limits cannot be removed");
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
