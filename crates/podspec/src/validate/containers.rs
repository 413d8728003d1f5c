//! Rules for the lists of containers, and for the fields of each container type.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, EphemeralContainer, PodSpec};

use super::{PodContext, container, handler, port, restart, word};
use crate::ephemeral;
use crate::field_error::{FieldErrors, FieldPath};
use crate::view::is_sidecar;

pub(super) fn check(
    spec: &PodSpec,
    path: &FieldPath,
    context: &PodContext<'_>,
    errors: &mut FieldErrors,
) {
    let mut names = BTreeSet::new();
    check_regular(spec, &path.child("containers"), context, errors);
    check_names(&spec.containers, &path.child("containers"), &mut names, errors);

    let init_path = path.child("initContainers");
    let init_containers = spec.init_containers.as_deref().unwrap_or_default();
    for (index, init_container) in init_containers.iter().enumerate() {
        check_init(init_container, &init_path.index(index), context, errors);
    }
    check_names(init_containers, &init_path, &mut names, errors);

    let ephemeral_path = path.child("ephemeralContainers");
    let targets = names.clone();
    for (index, ephemeral) in spec.ephemeral_containers.iter().flatten().enumerate() {
        let path = ephemeral_path.index(index);
        check_ephemeral(ephemeral, &path, context, errors);
        if !names.insert(&ephemeral.name) {
            errors.duplicate(&path.child("name"), ephemeral.name.as_str());
        }
        let target = word(ephemeral.target_container_name.as_ref());
        if !target.is_empty() && !targets.contains(target) {
            errors.not_found(&path.child("targetContainerName"), target, "");
        }
    }
    if spec.ephemeral_containers.as_ref().is_some_and(|list| !list.is_empty()) {
        errors.forbidden(&ephemeral_path, "cannot be set on create");
    }
}

/// Container names of all types must be unique.
fn check_names<'a>(
    containers: &'a [Container],
    path: &FieldPath,
    names: &mut BTreeSet<&'a str>,
    errors: &mut FieldErrors,
) {
    for (index, container) in containers.iter().enumerate() {
        if !container.name.is_empty() && !names.insert(&container.name) {
            errors.duplicate(&path.index(index).child("name"), container.name.as_str());
        }
    }
}

fn check_regular(
    spec: &PodSpec,
    path: &FieldPath,
    context: &PodContext<'_>,
    errors: &mut FieldErrors,
) {
    if spec.containers.is_empty() {
        errors.required(path, "");
    }
    for (index, regular) in spec.containers.iter().enumerate() {
        let path = path.index(index);
        container::check(regular, &path, context, errors);
        handler::check_container(regular, &path, context, errors);
        restart::check(regular, &path, errors);
    }
    port::check_host_ports(&spec.containers, path, errors);
}

fn check_init(
    init_container: &Container,
    path: &FieldPath,
    context: &PodContext<'_>,
    errors: &mut FieldErrors,
) {
    container::check(init_container, path, context, errors);
    restart::check(init_container, path, errors);
    // Init containers run one by one, so host ports can conflict only within one.
    port::check_host_ports_of(init_container, path, &mut BTreeSet::new(), errors);
    if is_sidecar(init_container) {
        handler::check_container(init_container, path, context, errors);
        return;
    }
    let fields = [
        ("lifecycle", init_container.lifecycle.is_some()),
        ("livenessProbe", init_container.liveness_probe.is_some()),
        ("readinessProbe", init_container.readiness_probe.is_some()),
        ("startupProbe", init_container.startup_probe.is_some()),
    ];
    for (field, is_set) in fields {
        if is_set {
            let problem = "may not be set for init containers without restartPolicy=Always";
            errors.forbidden(&path.child(field), problem);
        }
    }
    for (index, policy) in init_container.resize_policy.iter().flatten().enumerate() {
        if policy.restart_policy == "RestartContainer" {
            let path = path.child("resizePolicy").index(index).child("restartPolicy");
            let problem = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            errors.invalid(&path, policy.restart_policy.as_str(), problem);
        }
    }
}

fn check_ephemeral(
    ephemeral: &EphemeralContainer,
    path: &FieldPath,
    context: &PodContext<'_>,
    errors: &mut FieldErrors,
) {
    let container = ephemeral::to_container(ephemeral.clone());
    container::check(&container, path, context, errors);
    let has_resources = container.resources.as_ref().is_some_and(|resources| {
        resources.limits.is_some() || resources.requests.is_some() || resources.claims.is_some()
    });
    let fields = [
        ("ports", container.ports.is_some()),
        ("resources", has_resources),
        ("resizePolicy", container.resize_policy.is_some()),
        ("restartPolicy", container.restart_policy.is_some()),
        ("restartPolicyRules", container.restart_policy_rules.is_some()),
        ("livenessProbe", container.liveness_probe.is_some()),
        ("readinessProbe", container.readiness_probe.is_some()),
        ("startupProbe", container.startup_probe.is_some()),
        ("lifecycle", container.lifecycle.is_some()),
    ];
    let problem = "cannot be set for an Ephemeral Container";
    for (field, is_set) in fields {
        if is_set {
            errors.forbidden(&path.child(field), problem);
        }
    }
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let path = path.child("volumeMounts").index(index);
        if !word(mount.sub_path.as_ref()).is_empty() {
            errors.forbidden(&path.child("subPath"), problem);
        }
        if !word(mount.sub_path_expr.as_ref()).is_empty() {
            errors.forbidden(&path.child("subPathExpr"), problem);
        }
    }
}
