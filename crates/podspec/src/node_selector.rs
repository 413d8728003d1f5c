//! Matches nodes against node selectors.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};
use model::names::{label_value, qualified_name};

/// Whether one of the terms matches a node. Without the node's name, field requirements are met.
pub fn matches_any(
    terms: &[NodeSelectorTerm],
    labels: &BTreeMap<String, String>,
    name: Option<&str>,
) -> bool {
    terms.iter().any(|term| matches(term, labels, name))
}

/// Whether all requirements of a term are met. An empty or invalid term matches no node.
fn matches(term: &NodeSelectorTerm, labels: &BTreeMap<String, String>, name: Option<&str>) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    let expressions = expressions.iter().map(|required| label_matches(required, labels));
    let fields = fields.iter().map(|required| field_matches(required, name));
    expressions.chain(fields).all(|matches| matches == Some(true))
}

/// Whether a label meets a requirement; `None` for an invalid requirement.
fn label_matches(
    required: &NodeSelectorRequirement,
    labels: &BTreeMap<String, String>,
) -> Option<bool> {
    let values = required.values.as_deref().unwrap_or_default();
    let is_valid = qualified_name(&required.key).is_empty()
        && values.iter().all(|value| label_value(value).is_empty());
    if !is_valid {
        return None;
    }
    let found = labels.get(&required.key);
    let number = |text: &String| text.parse::<i64>().ok();
    let compare = |holds: fn(&i64, &i64) -> bool| {
        let [limit] = values else { return None };
        let limit = number(limit)?;
        Some(found.and_then(number).is_some_and(|found| holds(&found, &limit)))
    };
    match required.operator.as_str() {
        "In" if !values.is_empty() => Some(found.is_some_and(|found| values.contains(found))),
        "NotIn" if !values.is_empty() => Some(found.is_none_or(|found| !values.contains(found))),
        "Exists" if values.is_empty() => Some(found.is_some()),
        "DoesNotExist" if values.is_empty() => Some(found.is_none()),
        "Gt" => compare(i64::gt),
        "Lt" => compare(i64::lt),
        _ => None,
    }
}

/// Whether a field of the node meets a requirement. The node's name is the only field.
fn field_matches(required: &NodeSelectorRequirement, name: Option<&str>) -> Option<bool> {
    let [value] = required.values.as_deref().unwrap_or_default() else { return None };
    let holds = |is_in: bool| {
        let Some(name) = name else { return true };
        let field = if required.key == "metadata.name" { name } else { "" };
        (field == value) == is_in
    };
    match required.operator.as_str() {
        "In" => Some(holds(true)),
        "NotIn" => Some(holds(false)),
        _ => None,
    }
}
