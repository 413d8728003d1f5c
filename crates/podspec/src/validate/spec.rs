//! Rules for the fields of `spec` itself.

use k8s_openapi::api::core::v1::PodSpec;

use super::{PodContext, check_not_negative, check_word, containers_with_path, word};
use super::{containers, network, resources, scheduling, security, volume};
use crate::field_error::{FieldErrors, FieldPath};
use crate::names::{between, dns_subdomain};

const RESTART_POLICIES: &[&str] = &["Always", "OnFailure", "Never"];

pub(super) fn check(spec: &PodSpec, path: &FieldPath, errors: &mut FieldErrors) {
    let context = PodContext::new(spec);
    check_times(spec, path, errors);
    volume::check_all(spec, &path.child("volumes"), errors);
    resources::check_claims(spec, &path.child("resourceClaims"), errors);
    containers::check(spec, path, &context, errors);
    resources::check_pod_level(spec, &path.child("resources"), &context, errors);
    check_word(context.restart_policy, RESTART_POLICIES, &path.child("restartPolicy"), errors);
    network::check(spec, path, errors);
    scheduling::check(spec, path, errors);
    security::check_pod(spec, path, errors);
    check_names(spec, path, errors);
    if let Some(overhead) = &spec.overhead {
        resources::check_overhead(overhead, &path.child("overhead"), errors);
    }
    check_os(spec, path, errors);
}

fn check_times(spec: &PodSpec, path: &FieldPath, errors: &mut FieldErrors) {
    let grace_path = path.child("terminationGracePeriodSeconds");
    match spec.termination_grace_period_seconds {
        None => errors.required(&grace_path, ""),
        grace => check_not_negative(grace, &grace_path, errors),
    }
    let longest = i64::from(i32::MAX);
    if let Some(deadline) = spec.active_deadline_seconds
        && !(1..=longest).contains(&deadline)
    {
        errors.invalid(&path.child("activeDeadlineSeconds"), deadline, between(1, longest));
    }
}

/// Names of other objects.
fn check_names(spec: &PodSpec, path: &FieldPath, errors: &mut FieldErrors) {
    let names = [
        ("serviceAccountName", &spec.service_account_name),
        ("nodeName", &spec.node_name),
        ("priorityClassName", &spec.priority_class_name),
    ];
    for (field, name) in names {
        let name = word(name.as_ref());
        if !name.is_empty() {
            errors.invalid_each(&path.child(field), name, dns_subdomain(name));
        }
    }
    if let Some(name) = &spec.runtime_class_name {
        errors.invalid_each(&path.child("runtimeClassName"), name.as_str(), dns_subdomain(name));
    }
}

fn check_os(spec: &PodSpec, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(os) = &spec.os else {
        return;
    };
    if os.name.is_empty() {
        errors.required(&path.child("os").child("name"), "");
    } else if !["linux", "windows"].contains(&os.name.as_str()) {
        errors.not_supported(&path.child("os"), &os.name, &["linux", "windows"]);
    }
    if os.name != "linux" {
        return;
    }
    let problem = "windows options cannot be set for a linux pod";
    let pod_options = spec.security_context.as_ref().and_then(|sc| sc.windows_options.as_ref());
    if pod_options.is_some() {
        errors.forbidden(&path.child("securityContext").child("windowsOptions"), problem);
    }
    for (path, container) in containers_with_path(spec, path) {
        let security_context = container.security_context.as_ref();
        if security_context.is_some_and(|sc| sc.windows_options.is_some()) {
            errors.forbidden(&path.child("securityContext").child("windowsOptions"), problem);
        }
    }
}
