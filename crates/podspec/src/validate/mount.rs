//! Rules for volume mounts.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, VolumeMount};

use super::{PodContext, check_optional_word, paths, word};
use crate::field_error::{FieldErrors, FieldPath};

const PROPAGATIONS: &[&str] = &["Bidirectional", "HostToContainer", "None"];
const RECURSIVE_READ_ONLY: &[&str] = &["Disabled", "Enabled", "IfPossible"];

pub(super) fn check(
    container: &Container,
    path: &FieldPath,
    context: &PodContext<'_>,
    errors: &mut FieldErrors,
) {
    let devices = container.volume_devices.iter().flatten();
    let devices = Devices {
        names: devices.clone().map(|device| device.name.as_str()).collect(),
        paths: devices.map(|device| device.device_path.as_str()).collect(),
    };
    let mut mount_paths = BTreeSet::new();
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let path = path.index(index);
        check_volume(mount, &devices, &path.child("name"), context, errors);
        check_mount_path(mount, &devices, &path.child("mountPath"), errors);
        if !mount.mount_path.is_empty() && !mount_paths.insert(&mount.mount_path) {
            let mount_path = mount.mount_path.as_str();
            errors.invalid(&path.child("mountPath"), mount_path, "must be unique");
        }
        check_sub_paths(mount, &path, errors);
        check_propagation(mount, container, &path.child("mountPropagation"), errors);
        check_recursive_read_only(mount, &path.child("recursiveReadOnly"), errors);
    }
}

/// Block devices of a container, which must not be volume mounts, too.
struct Devices<'a> {
    names: BTreeSet<&'a str>,
    paths: BTreeSet<&'a str>,
}

fn check_volume(
    mount: &VolumeMount,
    devices: &Devices<'_>,
    path: &FieldPath,
    context: &PodContext<'_>,
    errors: &mut FieldErrors,
) {
    let name = mount.name.as_str();
    if name.is_empty() {
        errors.required(path, "");
    } else if !context.volumes.contains_key(name) {
        errors.not_found(path, name, "");
    }
    if devices.names.contains(name) {
        errors.invalid(path, name, "must not already exist in volumeDevices");
    }
}

fn check_mount_path(
    mount: &VolumeMount,
    devices: &Devices<'_>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let mount_path = mount.mount_path.as_str();
    if mount_path.is_empty() {
        errors.required(path, "");
    }
    // The API documents this and does not validate it; runtimes use a colon as separator.
    if mount_path.contains(':') {
        errors.invalid(path, mount_path, "must not contain ':'");
    }
    if devices.paths.contains(mount_path) {
        errors.invalid(path, mount_path, "must not already exist as a path in volumeDevices");
    }
}

fn check_sub_paths(mount: &VolumeMount, path: &FieldPath, errors: &mut FieldErrors) {
    let sub_path = word(mount.sub_path.as_ref());
    let expression = word(mount.sub_path_expr.as_ref());
    let expression_path = path.child("subPathExpr");
    paths::check_descending(sub_path, &path.child("subPath"), errors);
    paths::check_descending(expression, &expression_path, errors);
    if !sub_path.is_empty() && !expression.is_empty() {
        let problem = "subPathExpr and subPath are mutually exclusive";
        errors.invalid(&expression_path, expression, problem);
    }
}

fn check_propagation(
    mount: &VolumeMount,
    container: &Container,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    check_optional_word(mount.mount_propagation.as_ref(), PROPAGATIONS, path, errors);
    let is_privileged =
        container.security_context.as_ref().is_some_and(|sc| sc.privileged == Some(true));
    if word(mount.mount_propagation.as_ref()) == "Bidirectional" && !is_privileged {
        let problem = "Bidirectional mount propagation is available only to privileged containers";
        errors.forbidden(path, problem);
    }
}

fn check_recursive_read_only(mount: &VolumeMount, path: &FieldPath, errors: &mut FieldErrors) {
    check_optional_word(mount.recursive_read_only.as_ref(), RECURSIVE_READ_ONLY, path, errors);
    if !matches!(word(mount.recursive_read_only.as_ref()), "Enabled" | "IfPossible") {
        return;
    }
    if mount.read_only != Some(true) {
        errors.forbidden(path, "may only be specified when readOnly is true");
    }
    if mount.mount_propagation.as_ref().is_some_and(|mode| mode != "None") {
        let problem = "may only be specified when mountPropagation is None or not specified";
        errors.forbidden(path, problem);
    }
}
