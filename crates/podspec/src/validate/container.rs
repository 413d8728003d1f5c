//! Rules for one container of any kind.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerResizePolicy};

use super::{PodContext, check_word, device, env, mount, port, resources, security, word};
use crate::field_error::{FieldErrors, FieldPath};
use crate::names::dns_label;

pub(super) const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];
const MESSAGE_POLICIES: &[&str] = &["File", "FallbackToLogsOnError"];
const RESIZE_RESOURCES: &[&str] = &["cpu", "memory"];
const RESIZE_POLICIES: &[&str] = &["NotRequired", "RestartContainer"];

pub(super) fn check(
    container: &Container,
    path: &FieldPath,
    context: &PodContext<'_>,
    errors: &mut FieldErrors,
) {
    let name = container.name.as_str();
    if name.is_empty() {
        errors.required(&path.child("name"), "");
    } else {
        errors.invalid_each(&path.child("name"), name, dns_label(name));
    }
    check_image(word(container.image.as_ref()), &path.child("image"), errors);
    let message_policy = word(container.termination_message_policy.as_ref());
    let message_path = path.child("terminationMessagePolicy");
    check_word(message_policy, MESSAGE_POLICIES, &message_path, errors);
    port::check(container.ports.iter().flatten(), &path.child("ports"), errors);
    env::check_variables(container.env.iter().flatten(), &path.child("env"), context, errors);
    env::check_sources(container.env_from.iter().flatten(), &path.child("envFrom"), errors);
    mount::check(container, &path.child("volumeMounts"), context, errors);
    device::check(container, &path.child("volumeDevices"), context, errors);
    let pull_policy = word(container.image_pull_policy.as_ref());
    check_word(pull_policy, PULL_POLICIES, &path.child("imagePullPolicy"), errors);
    if let Some(requirements) = &container.resources {
        resources::check_container(requirements, &path.child("resources"), context, errors);
    }
    let policies = container.resize_policy.iter().flatten();
    check_resize_policies(policies, &path.child("resizePolicy"), context, errors);
    security::check_container(container, &path.child("securityContext"), context, errors);
}

fn check_image(image: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if image.is_empty() {
        errors.required(path, "");
    } else if image.trim() != image {
        errors.invalid(path, image, "must not have leading or trailing whitespace");
    }
}

fn check_resize_policies<'a>(
    policies: impl Iterator<Item = &'a ContainerResizePolicy>,
    path: &FieldPath,
    context: &PodContext<'_>,
    errors: &mut FieldErrors,
) {
    let mut seen = BTreeSet::new();
    for (index, policy) in policies.enumerate() {
        let path = path.index(index);
        if !seen.insert(&policy.resource_name) {
            errors.duplicate(&path, policy.resource_name.as_str());
        }
        check_word(&policy.resource_name, RESIZE_RESOURCES, &path.child("resourceName"), errors);
        let restart_path = path.child("restartPolicy");
        check_word(&policy.restart_policy, RESIZE_POLICIES, &restart_path, errors);
        if context.restart_policy == "Never" && policy.restart_policy != "NotRequired" {
            let problem = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.invalid(&restart_path, policy.restart_policy.as_str(), problem);
        }
    }
}
