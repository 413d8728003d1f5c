//! Whether the node is one of those that a pod must run on.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, Pod};
use model::names::{label_value, qualified_name};
use podspec::view;

use super::Node;

/// Whether a pod may run on the node, by its selector and by what its affinity requires.
pub(super) fn matches(pod: &Pod, node: &Node) -> bool {
    let Some(spec) = view::spec(pod) else { return true };
    let mut selector = spec.node_selector.iter().flatten();
    if !selector.all(|(name, value)| node.labels.get(name) == Some(value)) {
        return false;
    }
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    // One term is enough.
    required.is_none_or(|required| {
        required.node_selector_terms.iter().any(|term| term_matches(term, node))
    })
}

/// Whether all of a term holds. One that says nothing, or something that makes no sense, does not.
fn term_matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let (labels, fields) = (&term.match_expressions, &term.match_fields);
    let labels = labels.as_deref().unwrap_or_default();
    let fields = fields.as_deref().unwrap_or_default();
    if labels.is_empty() && fields.is_empty() {
        return false;
    }
    let labels = labels.iter().map(|wanted| label_matches(wanted, &node.labels));
    let fields = fields.iter().map(|wanted| field_matches(wanted, &node.name));
    labels.chain(fields).all(|matches| matches == Some(true))
}

/// Whether a label is as required; `None` for what is no requirement.
fn label_matches(
    wanted: &NodeSelectorRequirement,
    labels: &BTreeMap<String, String>,
) -> Option<bool> {
    let values = wanted.values.as_deref().unwrap_or_default();
    let is_sound = qualified_name(&wanted.key).is_empty()
        && values.iter().all(|value| label_value(value).is_empty());
    if !is_sound {
        return None;
    }
    let found = labels.get(&wanted.key);
    let number = |text: &String| text.parse::<i64>().ok();
    let compare = |holds: fn(&i64, &i64) -> bool| {
        let [limit] = values else { return None };
        let limit = number(limit)?;
        Some(found.and_then(number).is_some_and(|found| holds(&found, &limit)))
    };
    match wanted.operator.as_str() {
        "In" if !values.is_empty() => Some(found.is_some_and(|found| values.contains(found))),
        "NotIn" if !values.is_empty() => Some(found.is_none_or(|found| !values.contains(found))),
        "Exists" if values.is_empty() => Some(found.is_some()),
        "DoesNotExist" if values.is_empty() => Some(found.is_none()),
        "Gt" => compare(i64::gt),
        "Lt" => compare(i64::lt),
        _ => None,
    }
}

/// Whether a field of the node is as required. There is just one: its name.
fn field_matches(wanted: &NodeSelectorRequirement, name: &str) -> Option<bool> {
    let [value] = wanted.values.as_deref().unwrap_or_default() else { return None };
    let field = if wanted.key == "metadata.name" { name } else { "" };
    match wanted.operator.as_str() {
        "In" => Some(field == value),
        "NotIn" => Some(field != value),
        _ => None,
    }
}
