//! Checks node selector and node affinity.

use k8s_openapi::api::core::v1::Pod;
use podspec::{node_selector, view};

use super::Node;

/// Whether a pod may run on the node, by its node selector and required node affinity.
pub(super) fn matches(pod: &Pod, node: &Node) -> bool {
    let Some(spec) = view::spec(pod) else { return true };
    let mut selector = spec.node_selector.iter().flatten();
    if !selector.all(|(name, value)| node.labels.get(name) == Some(value)) {
        return false;
    }
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    required.is_none_or(|required| {
        let terms = &required.node_selector_terms;
        node_selector::matches_any(terms, &node.labels, Some(&node.name))
    })
}
