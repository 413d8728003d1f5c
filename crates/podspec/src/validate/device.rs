//! Rules for volumes that containers use as block devices.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Container;

use super::PodContext;
use crate::field_error::{FieldErrors, FieldPath};

pub(super) fn check(
    container: &Container,
    path: &FieldPath,
    context: &PodContext<'_>,
    errors: &mut FieldErrors,
) {
    let mounts = container.volume_mounts.iter().flatten();
    let mount_names: BTreeSet<_> = mounts.clone().map(|mount| mount.name.as_str()).collect();
    let mount_paths: BTreeSet<_> = mounts.map(|mount| mount.mount_path.as_str()).collect();
    let mut names = BTreeSet::new();
    let mut device_paths = BTreeSet::new();
    for (index, device) in container.volume_devices.iter().flatten().enumerate() {
        let path = path.index(index);
        let name_path = path.child("name");
        let name = device.name.as_str();
        if name.is_empty() {
            errors.required(&name_path, "");
        } else if !names.insert(name) {
            errors.invalid(&name_path, name, "must be unique");
        }
        match context.volumes.get(name) {
            None if name.is_empty() => {}
            None => errors.not_found(&name_path, name, ""),
            Some(volume)
                if volume.persistent_volume_claim.is_none() && volume.ephemeral.is_none() =>
            {
                let problem = "can only use volume source type of PersistentVolumeClaim or \
                               Ephemeral for block mode";
                errors.invalid(&name_path, name, problem);
            }
            Some(_) => {}
        }
        if mount_names.contains(name) {
            errors.invalid(&name_path, name, "must not already exist in volumeMounts");
        }
        check_device_path(&device.device_path, &path.child("devicePath"), &mount_paths, errors);
        if !device.device_path.is_empty() && !device_paths.insert(&device.device_path) {
            let device_path = device.device_path.as_str();
            errors.invalid(&path.child("devicePath"), device_path, "must be unique");
        }
    }
}

fn check_device_path(
    device_path: &str,
    path: &FieldPath,
    mount_paths: &BTreeSet<&str>,
    errors: &mut FieldErrors,
) {
    if device_path.is_empty() {
        errors.required(path, "");
    } else if device_path.split('/').any(|part| part == "..") {
        errors.invalid(path, device_path, "can not contain backsteps ('..')");
    }
    if mount_paths.contains(device_path) {
        errors.invalid(path, device_path, "must not already exist as a path in volumeMounts");
    }
}
