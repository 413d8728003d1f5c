//! Rules for fields that restrict a pod to nodes.

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Toleration};

use super::{metadata, word};
use crate::field_error::{FieldErrors, FieldPath};
use crate::names::{dns_subdomain, label_value, qualified_name};

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
const OPERATORS: &[&str] = &["Equal", "Exists"];

pub(super) fn check(spec: &PodSpec, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(selector) = &spec.node_selector {
        metadata::check_labels(selector, &path.child("nodeSelector"), errors);
    }
    let node_affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = node_affinity
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    if let Some(selector) = required {
        let path = path.child("affinity").child("nodeAffinity");
        let path = path.child("requiredDuringSchedulingIgnoredDuringExecution");
        check_terms(&selector.node_selector_terms, &path.child("nodeSelectorTerms"), errors);
    }
    for (index, toleration) in spec.tolerations.iter().flatten().enumerate() {
        check_toleration(toleration, &path.child("tolerations").index(index), errors);
    }
    for (index, gate) in spec.readiness_gates.iter().flatten().enumerate() {
        let path = path.child("readinessGates").index(index).child("conditionType");
        let condition = gate.condition_type.as_str();
        errors.invalid_each(&path, condition, qualified_name(condition));
    }
    let has_gates = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    if has_gates && !word(spec.node_name.as_ref()).is_empty() {
        let problem = "cannot be set until all schedulingGates have been cleared";
        errors.forbidden(&path.child("nodeName"), problem);
    }
}

fn check_terms(terms: &[NodeSelectorTerm], path: &FieldPath, errors: &mut FieldErrors) {
    if terms.is_empty() {
        errors.required(path, "must have at least one node selector term");
    }
    for (index, term) in terms.iter().enumerate() {
        let path = path.index(index);
        for (index, requirement) in term.match_expressions.iter().flatten().enumerate() {
            check_expression(requirement, &path.child("matchExpressions").index(index), errors);
        }
        for (index, requirement) in term.match_fields.iter().flatten().enumerate() {
            check_field(requirement, &path.child("matchFields").index(index), errors);
        }
    }
}

fn check_expression(
    requirement: &NodeSelectorRequirement,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let values = requirement.values.as_deref().unwrap_or_default();
    let values_path = path.child("values");
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(&values_path, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let problem = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(&values_path, problem);
        }
        "Gt" | "Lt" if values.len() != 1 => {
            let problem = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.required(&values_path, problem);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        operator => {
            errors.invalid(&path.child("operator"), operator, "not a valid selector operator");
        }
    }
    let key = requirement.key.as_str();
    errors.invalid_each(&path.child("key"), key, qualified_name(key));
    for (index, value) in values.iter().enumerate() {
        errors.invalid_each(&values_path.index(index), value.as_str(), label_value(value));
    }
}

/// The only selectable field of a node is its name.
fn check_field(requirement: &NodeSelectorRequirement, path: &FieldPath, errors: &mut FieldErrors) {
    let values = requirement.values.as_deref().unwrap_or_default();
    if !["In", "NotIn"].contains(&requirement.operator.as_str()) {
        let operator = requirement.operator.as_str();
        errors.invalid(&path.child("operator"), operator, "not a valid selector operator");
    } else if values.len() != 1 {
        let problem =
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
        errors.required(&path.child("values"), problem);
    }
    if requirement.key != "metadata.name" {
        let key = requirement.key.as_str();
        errors.invalid(&path.child("key"), key, "not a valid field selector key");
        return;
    }
    for (index, value) in values.iter().enumerate() {
        let path = path.child("values").index(index);
        errors.invalid_each(&path, value.as_str(), dns_subdomain(value));
    }
}

fn check_toleration(toleration: &Toleration, path: &FieldPath, errors: &mut FieldErrors) {
    let key = word(toleration.key.as_ref());
    let operator = word(toleration.operator.as_ref());
    let value = word(toleration.value.as_ref());
    let effect = word(toleration.effect.as_ref());
    let operator_path = path.child("operator");
    if !key.is_empty() {
        errors.invalid_each(&path.child("key"), key, qualified_name(key));
    } else if operator != "Exists" {
        let problem = "operator must be Exists when `key` is empty, which means \"match all \
                       values and all keys\"";
        errors.invalid(&operator_path, operator, problem);
    }
    if toleration.toleration_seconds.is_some() && effect != "NoExecute" {
        let problem = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.invalid(&path.child("effect"), effect, problem);
    }
    match operator {
        "" | "Equal" => {
            let wrong = label_value(value);
            if !wrong.is_empty() {
                errors.invalid(&path.child("value"), value, wrong.join(";"));
            }
        }
        "Exists" if !value.is_empty() => {
            let problem = "value must be empty when `operator` is 'Exists'";
            errors.invalid(&path.child("value"), value, problem);
        }
        "Exists" => {}
        _ => errors.not_supported(&operator_path, operator, OPERATORS),
    }
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        errors.not_supported(&path.child("effect"), effect, EFFECTS);
    }
}
