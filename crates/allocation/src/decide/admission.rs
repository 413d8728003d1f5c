//! Decides whether the node admits a pod: the predicates of upstream's kubelet, in its order and words.
//!
//! ```text
//!  pod ──> system ──> resources, affinity, name, ports, taints ──> admitted
//!             │                    │ only resources, and the pod is critical
//!             v                    v
//!          rejected          preemption ──> not enough victims: rejected
//! ```
//!
//! Features of the node that a pod needs are checked by [`features`].

mod affinity;
mod features;
mod node;
mod occupancy;
mod ports;
mod preemption;
mod resources;
mod taints;

use k8s_openapi::api::core::v1::Pod;
use model::admission::{Preemption, Rejection};
use podspec::view;

pub use features::features;
pub(super) use features::undeclared;
pub use node::{Ability, Node};
pub use occupancy::Occupancy;
use preemption::{VictimSelection, victims};
use resources::{Insufficient, insufficient};
pub(super) use taints::tolerates_memory_pressure;

/// The operating system of all containers.
const OS: &str = "linux";
const OS_LABEL: &str = "kubernetes.io/os";

const AFFINITY: &str = "NodeAffinity";

/// The rejection by a predicate that upstream's scheduler has too.
fn failed_predicate(name: &'static str, why: &str) -> Rejection {
    Rejection::new(name, format!("Predicate {name} failed: {why}"))
}

/// The outcome of admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The pod is admitted.
    Admit,
    /// The pod is rejected.
    Reject(Rejection),
    /// The pod is admitted after the victims have terminated.
    Preempt(Preemption),
}

/// Decides whether a pod is admitted in addition to the pods of the node.
pub fn admission(pod: &Pod, there: &Occupancy, node: &Node) -> Decision {
    if let Some(rejection) = system(pod, node) {
        return Decision::Reject(rejection);
    }
    let lacking = insufficient(pod, there, node);
    let others = other_failures(pod, there, node);
    if lacking.is_empty() && others.is_empty() {
        return Decision::Admit;
    }
    if view::is_critical(pod) {
        // Preemption frees resources only; no other failure can be resolved.
        return match others.into_iter().next() {
            Some(rejection) => Decision::Reject(rejection),
            None => make_room(pod, there, &lacking),
        };
    }
    let first = lacking.iter().map(Insufficient::rejection).chain(others).next();
    first.map_or(Decision::Admit, Decision::Reject)
}

/// Whether a pod is rejected only for the node's labels, which may have changed meanwhile.
pub fn only_labels_mismatch(pod: &Pod, there: &Occupancy, node: &Node) -> bool {
    let others = other_failures(pod, there, node);
    system(pod, node).is_none()
        && insufficient(pod, there, node).is_empty()
        && matches!(&others[..], [only] if only.reason == AFFINITY)
}

/// The rejection of a pod for another operating system.
pub fn os_mismatch(pod: &Pod) -> Option<Rejection> {
    let label = pod.metadata.labels.as_ref().and_then(|labels| labels.get(OS_LABEL));
    if label.is_some_and(|label| label != OS) {
        let message =
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
        return Some(Rejection::new("PodOSSelectorNodeLabelDoesNotMatch", message));
    }
    let spec = view::spec(pod)?;
    if spec.os.as_ref().is_some_and(|os| os.name != OS) {
        let message = "Failed to admit pod as the OS field doesn't match node OS";
        return Some(Rejection::new("PodOSNotSupported", message));
    }
    None
}

/// The failures that preemption cannot resolve and that are checked first.
fn system(pod: &Pod, node: &Node) -> Option<Rejection> {
    if let Some(rejection) = os_mismatch(pod) {
        return Some(rejection);
    }
    let context = view::spec(pod)?.security_context.as_ref();
    let policy = context.and_then(|context| context.supplemental_groups_policy.as_deref());
    if policy == Some("Strict") && !node.runtime.supplemental_groups_policy {
        let message = "SupplementalGroupsPolicy=Strict is not supported in this node";
        return Some(Rejection::new("SupplementalGroupsPolicyNotSupported", message));
    }
    None
}

/// The failures other than resources, in order.
fn other_failures(pod: &Pod, there: &Occupancy, node: &Node) -> Vec<Rejection> {
    let named = view::spec(pod).and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
    let checks = [
        (
            affinity::matches(pod, node),
            AFFINITY,
            "node(s) didn't match Pod's node affinity/selector",
        ),
        (
            named.is_empty() || named == node.name,
            "NodeName",
            "node(s) didn't match the requested node name",
        ),
        (
            there.has_free_ports(pod),
            "NodePorts",
            "node(s) didn't have free ports for the requested pod ports",
        ),
        (
            view::is_static(pod) || taints::are_tolerated(pod, node),
            "TaintToleration",
            "node(s) had taints that the pod didn't tolerate",
        ),
    ];
    let failed = checks.into_iter().filter(|(holds, ..)| !holds);
    failed.map(|(_, name, why)| failed_predicate(name, why)).collect()
}

fn make_room(pod: &Pod, there: &Occupancy, lacking: &[Insufficient]) -> Decision {
    match victims(pod, there.pods(), lacking) {
        VictimSelection::Victims(victims) => {
            let resource = lacking.first().map(|first| first.resource.clone());
            Decision::Preempt(Preemption { victims, resource: resource.unwrap_or_default() })
        }
        VictimSelection::NotEnough(missing) => {
            let lacking = lacking.iter().filter(|lack| missing.has(&lack.resource));
            let explained: Vec<String> = lacking.map(Insufficient::explained).collect();
            // Upstream's text comes first and unchanged.
            let message = format!(
                "Unexpected error while attempting to recover from admission failure: preemption: \
                 error finding a set of pods to preempt: no set of running pods found to reclaim \
                 resources: {missing}. {}",
                explained.join(" ")
            );
            Decision::Reject(Rejection::new("UnexpectedAdmissionError", message))
        }
    }
}

#[cfg(test)]
mod tests;
