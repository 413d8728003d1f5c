//! Rules for volumes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, HostPathVolumeSource, PodSpec, Volume};

use super::{check_word, container::PULL_POLICIES, file, paths, storage, word};
use crate::field_error::{FieldErrors, FieldPath};
use crate::names::dns_label;
use crate::quantity::Quantity;
use crate::volume_source;

const HOST_PATH_TYPES: &[&str] = &[
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

pub(super) fn check_all(spec: &PodSpec, path: &FieldPath, errors: &mut FieldErrors) {
    let mut names = BTreeSet::new();
    let has_service_account = !word(spec.service_account_name.as_ref()).is_empty();
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        let path = path.index(index);
        check_sources(volume, &path, errors);
        let name = volume.name.as_str();
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        } else {
            errors.invalid_each(&path.child("name"), name, dns_label(name));
            if !names.insert(name) {
                errors.duplicate(&path.child("name"), name);
            }
        }
        if let Some(projected) = volume.projected.as_ref().filter(|_| !has_service_account) {
            file::check_no_tokens(projected, &path.child("projected"), errors);
        }
    }
}

fn check_sources(volume: &Volume, path: &FieldPath, errors: &mut FieldErrors) {
    let sources = volume_source::names(volume);
    let Some((first, others)) = sources.split_first() else {
        errors.required(path, "must specify a volume type");
        return;
    };
    for other in others {
        errors.forbidden(&path.child(other), "may not specify more than 1 volume type");
    }
    check_source(volume, first, &path.child(first), errors);
}

/// The one source that is validated.
fn check_source(volume: &Volume, name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if let ("emptyDir", Some(source)) = (name, &volume.empty_dir) {
        check_empty_dir(source, path, errors);
    } else if let ("hostPath", Some(source)) = (name, &volume.host_path) {
        check_host_path(source, path, errors);
    } else if let ("secret", Some(source)) = (name, &volume.secret) {
        file::check_secret(source, path, errors);
    } else if let ("configMap", Some(source)) = (name, &volume.config_map) {
        file::check_config_map(source, path, errors);
    } else if let ("downwardAPI", Some(source)) = (name, &volume.downward_api) {
        file::check_downward_api(source, path, errors);
    } else if let ("projected", Some(source)) = (name, &volume.projected) {
        file::check_projected(source, path, errors);
    } else if let ("image", Some(source)) = (name, &volume.image) {
        if word(source.reference.as_ref()).is_empty() {
            errors.required(&path.child("reference"), "");
        }
        let pull_policy = word(source.pull_policy.as_ref());
        check_word(pull_policy, PULL_POLICIES, &path.child("pullPolicy"), errors);
    } else {
        storage::check(volume, name, path, errors);
    }
}

fn check_empty_dir(source: &EmptyDirVolumeSource, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(limit) = &source.size_limit else {
        return;
    };
    if Quantity::parse(&limit.0).map_or(true, |limit| limit.is_negative()) {
        let problem = "SizeLimit field must be a valid resource quantity";
        errors.forbidden(&path.child("sizeLimit"), problem);
    }
}

fn check_host_path(source: &HostPathVolumeSource, path: &FieldPath, errors: &mut FieldErrors) {
    if source.path.is_empty() {
        errors.required(&path.child("path"), "");
        return;
    }
    paths::check_no_backsteps(&source.path, &path.child("path"), errors);
    let kind = word(source.type_.as_ref());
    if !HOST_PATH_TYPES.contains(&kind) {
        errors.not_supported(&path.child("type"), kind, HOST_PATH_TYPES);
    }
}
