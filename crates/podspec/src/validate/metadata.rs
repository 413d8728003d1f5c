//! Rules for `metadata`.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;

use super::{containers_with_path, word};
use crate::field_error::{FieldErrors, FieldPath};
use crate::names::{dns_label, dns_subdomain, label_value, qualified_name};

/// The maximum size of all annotations.
const ANNOTATIONS_MAX_BYTES: usize = 256 << 10;
const APP_ARMOR_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";

type Texts = BTreeMap<String, String>;

pub(super) fn check(pod: &Pod, path: &FieldPath, errors: &mut FieldErrors) {
    let metadata = &pod.metadata;
    let name = word(metadata.name.as_ref());
    if name.is_empty() {
        errors.required(&path.child("name"), "name or generateName is required");
    } else {
        errors.invalid_each(&path.child("name"), name, dns_subdomain(name));
    }
    let namespace = word(metadata.namespace.as_ref());
    if namespace.is_empty() {
        errors.required(&path.child("namespace"), "");
    } else {
        errors.invalid_each(&path.child("namespace"), namespace, dns_label(namespace));
    }
    check_uid(word(metadata.uid.as_ref()), &path.child("uid"), errors);
    if let Some(labels) = &metadata.labels {
        check_labels(labels, &path.child("labels"), errors);
    }
    if let Some(annotations) = &metadata.annotations {
        let path = path.child("annotations");
        check_annotations(annotations, &path, errors);
        check_app_armor_annotations(pod, annotations, &path, errors);
    }
}

/// The API server assigns uids and has no rule for them. Here they are read from a file and used in names
/// of directories and cgroups.
fn check_uid(uid: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_name = uid.bytes().all(fits) && !uid.starts_with('.');
    if uid.len() > 63 || !is_name {
        let rule = "must be at most 63 alphanumeric characters, '-', '_' or '.', and must not \
                    start with '.'";
        errors.invalid(path, uid, rule);
    }
}

/// Keys and values of labels, and of selectors with the same syntax.
pub(super) fn check_labels(labels: &Texts, path: &FieldPath, errors: &mut FieldErrors) {
    for (key, value) in labels {
        errors.invalid_each(path, key.as_str(), qualified_name(key));
        errors.invalid_each(path, value.as_str(), label_value(value));
    }
}

fn check_annotations(annotations: &Texts, path: &FieldPath, errors: &mut FieldErrors) {
    for key in annotations.keys() {
        errors.invalid_each(path, key.as_str(), qualified_name(&key.to_lowercase()));
    }
    let bytes: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > ANNOTATIONS_MAX_BYTES {
        errors.too_long(path, ANNOTATIONS_MAX_BYTES);
    }
}

/// The deprecated annotations with the profile of a container.
fn check_app_armor_annotations(
    pod: &Pod,
    annotations: &Texts,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let Some(spec) = &pod.spec else {
        return;
    };
    let containers = containers_with_path(spec, path).map(|(_, container)| &container.name);
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|container| &container.name);
    let names: BTreeSet<&str> = containers.chain(ephemeral).map(String::as_str).collect();
    for (key, profile) in annotations {
        let Some(name) = key.strip_prefix(APP_ARMOR_PREFIX) else {
            continue;
        };
        let path = path.key(key);
        if !names.contains(name) {
            errors.invalid(&path, name, "container not found");
        }
        let is_profile = matches!(profile.as_str(), "" | "runtime/default" | "unconfined")
            || profile.starts_with("localhost/");
        if !is_profile {
            let problem = format!("invalid AppArmor profile name: {profile:?}");
            errors.invalid(&path, profile.as_str(), problem);
        }
    }
}
