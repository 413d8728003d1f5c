//! Rules for the restart policy of a container.

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule};

use super::check_optional_word;
use crate::field_error::{FieldErrors, FieldPath};

const POLICIES: &[&str] = &["Always", "Never", "OnFailure"];
const ACTIONS: &[&str] = &["Restart", "RestartAllContainers"];
const OPERATORS: &[&str] = &["In", "NotIn"];
const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;

/// Policy and rules of a regular container, an init container or a sidecar.
pub(super) fn check(container: &Container, path: &FieldPath, errors: &mut FieldErrors) {
    let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
    let policy_path = path.child("restartPolicy");
    if container.restart_policy.is_none() && !rules.is_empty() {
        errors.required(&policy_path, "must specify restartPolicy when restart rules are used");
    }
    check_optional_word(container.restart_policy.as_ref(), POLICIES, &policy_path, errors);
    let path = path.child("restartPolicyRules");
    if rules.len() > MAX_RULES {
        errors.too_many(&path, rules.len(), MAX_RULES);
    }
    for (index, rule) in rules.iter().enumerate() {
        check_rule(rule, &path.index(index), errors);
    }
}

fn check_rule(rule: &ContainerRestartRule, path: &FieldPath, errors: &mut FieldErrors) {
    check_optional_word(Some(&rule.action), ACTIONS, &path.child("action"), errors);
    let path = path.child("exitCodes");
    let Some(exit_codes) = &rule.exit_codes else {
        errors.required(&path, "must be specified");
        return;
    };
    check_optional_word(Some(&exit_codes.operator), OPERATORS, &path.child("operator"), errors);
    let count = exit_codes.values.as_ref().map_or(0, Vec::len);
    if count > MAX_EXIT_CODES {
        errors.too_many(&path.child("values"), count, MAX_EXIT_CODES);
    }
}
