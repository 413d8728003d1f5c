//! Reconciles a node object that existed before with the one that would be created. Taints, the provider id
//! and custom labels are kept: other clients may have changed them on purpose.

use k8s_openapi::api::core::v1::Node;

use super::object::ATTACH_DETACH;
use super::resources::{is_huge_pages, set_to_zero};

/// Labels that the node sets itself.
const DEFAULT_LABELS: [&str; 12] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "node.kubernetes.io/windows-build",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];

/// Sets labels, annotation and resources of an existing node as in `wanted`, the one
/// that would be created. The rest of its status is set with every update.
pub fn reconcile(existing: &mut Node, wanted: &Node) {
    reconcile_annotation(existing, wanted);
    reconcile_labels(existing, wanted);
    drop_huge_pages(existing, wanted);
    empty_devices(existing, wanted);
}

fn reconcile_annotation(existing: &mut Node, wanted: &Node) {
    let value = wanted.metadata.annotations.as_ref().and_then(|all| all.get(ATTACH_DETACH));
    match value {
        Some(value) => {
            let all = existing.metadata.annotations.get_or_insert_default();
            all.insert(ATTACH_DETACH.to_owned(), value.clone());
        }
        None => {
            if let Some(all) = &mut existing.metadata.annotations {
                all.remove(ATTACH_DETACH);
            }
        }
    }
}

fn reconcile_labels(existing: &mut Node, wanted: &Node) {
    let labels = existing.metadata.labels.get_or_insert_default();
    for name in DEFAULT_LABELS {
        let Some(value) = wanted.metadata.labels.as_ref().and_then(|all| all.get(name)) else {
            continue;
        };
        if value.is_empty() {
            labels.remove(name);
        } else {
            labels.insert(name.to_owned(), value.clone());
        }
    }
}

/// Removes sizes of huge pages that the machine no longer has. The status update adds those that it has.
fn drop_huge_pages(existing: &mut Node, wanted: &Node) {
    let wanted = wanted.status.as_ref().and_then(|status| status.capacity.as_ref());
    let is_there = |name: &str| wanted.is_some_and(|wanted| wanted.contains_key(name));
    let Some(status) = &mut existing.status else { return };
    for found in [&mut status.capacity, &mut status.allocatable].into_iter().flatten() {
        found.retain(|name, _| !is_huge_pages(name) || is_there(name));
    }
}

/// Sets all devices to zero if the machine was replaced.
fn empty_devices(existing: &mut Node, wanted: &Node) {
    if !is_other_machine(existing, wanted) {
        return;
    }
    let capacity = existing.status.as_ref().and_then(|status| status.capacity.as_ref());
    let all: Vec<String> = capacity.into_iter().flatten().map(|(name, _)| name.clone()).collect();
    set_to_zero(existing, all.iter());
}

/// Whether another machine has taken the node's name.
fn is_other_machine(existing: &Node, wanted: &Node) -> bool {
    let id = |node: &Node| Some(node.status.as_ref()?.node_info.as_ref()?.machine_id.clone());
    let existing = id(existing).filter(|id| !id.is_empty());
    existing.is_some() && existing != id(wanted)
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
