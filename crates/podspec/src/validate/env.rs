//! Rules for the environment of containers.

use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, EnvVarSource, FileKeySelector};

use super::field_ref::{self, ENV_FIELDS};
use super::{PodContext, paths, word};
use crate::field_error::{FieldErrors, FieldPath};
use crate::names::{config_key, dns_label, dns_subdomain, env_name};

pub(super) fn check_variables<'a>(
    variables: impl Iterator<Item = &'a EnvVar>,
    path: &FieldPath,
    context: &PodContext<'_>,
    errors: &mut FieldErrors,
) {
    for (index, variable) in variables.enumerate() {
        let path = path.index(index);
        let name = variable.name.as_str();
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        } else {
            errors.invalid_each(&path.child("name"), name, env_name(name));
        }
        if let Some(source) = &variable.value_from {
            let has_value = !word(variable.value.as_ref()).is_empty();
            check_value_from(source, has_value, &path.child("valueFrom"), errors);
            if let Some(key) = &source.file_key_ref {
                check_file_key(key, &path.child("valueFrom").child("fileKeyRef"), context, errors);
            }
        }
    }
}

fn check_value_from(
    source: &EnvVarSource,
    has_value: bool,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let mut sources = usize::from(source.file_key_ref.is_some());
    if let Some(selector) = &source.field_ref {
        sources += 1;
        field_ref::check_field(selector, ENV_FIELDS, &path.child("fieldRef"), errors);
    }
    if let Some(selector) = &source.resource_field_ref {
        sources += 1;
        field_ref::check_resource(selector, false, &path.child("resourceFieldRef"), errors);
    }
    if let Some(selector) = &source.config_map_key_ref {
        sources += 1;
        check_key(&selector.name, &selector.key, &path.child("configMapKeyRef"), errors);
    }
    if let Some(selector) = &source.secret_key_ref {
        sources += 1;
        check_key(&selector.name, &selector.key, &path.child("secretKeyRef"), errors);
    }
    if sources == 0 {
        let problem = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, \
                       `secretKeyRef` or `fileKeyRef`";
        errors.invalid(path, "", problem);
    } else if has_value {
        errors.invalid(path, "", "may not be specified when `value` is not empty");
    } else if sources > 1 {
        errors.invalid(path, "", "may not have more than one field specified at a time");
    }
}

/// A key of a config map or secret.
fn check_key(name: &str, key: &str, path: &FieldPath, errors: &mut FieldErrors) {
    errors.invalid_each(&path.child("name"), name, dns_subdomain(name));
    if key.is_empty() {
        errors.required(&path.child("key"), "");
    } else {
        errors.invalid_each(&path.child("key"), key, config_key(key));
    }
}

/// A variable from a file that another container wrote.
fn check_file_key(
    selector: &FileKeySelector,
    path: &FieldPath,
    context: &PodContext<'_>,
    errors: &mut FieldErrors,
) {
    let key = selector.key.as_str();
    if key.is_empty() {
        errors.required(&path.child("key"), "");
    } else {
        errors.invalid_each(&path.child("key"), key, env_name(key));
    }
    let volume_path = path.child("volumeName");
    let volume_name = selector.volume_name.as_str();
    if volume_name.is_empty() {
        errors.required(&volume_path, "");
    } else {
        errors.invalid_each(&volume_path, volume_name, dns_label(volume_name));
    }
    match context.volumes.get(volume_name) {
        None => errors.not_found(&volume_path, volume_name, ""),
        Some(volume) if volume.empty_dir.is_none() => {
            let problem = "referenced volume must be of type emptyDir";
            errors.invalid(&volume_path, volume_name, problem);
        }
        Some(_) => {}
    }
    if selector.path.is_empty() {
        errors.required(&path.child("path"), "");
    } else {
        paths::check_no_backsteps(&selector.path, &path.child("path"), errors);
    }
}

pub(super) fn check_sources<'a>(
    sources: impl Iterator<Item = &'a EnvFromSource>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    for (index, source) in sources.enumerate() {
        let path = path.index(index);
        let prefix = word(source.prefix.as_ref());
        if !prefix.is_empty() {
            errors.invalid_each(&path.child("prefix"), prefix, env_name(prefix));
        }
        let references = [
            ("configMapRef", source.config_map_ref.as_ref().map(|source| &source.name)),
            ("secretRef", source.secret_ref.as_ref().map(|source| &source.name)),
        ];
        let mut count = 0;
        for (field, name) in references {
            let Some(name) = name else {
                continue;
            };
            count += 1;
            let path = path.child(field).child("name");
            if name.is_empty() {
                errors.required(&path, "");
            } else {
                errors.invalid_each(&path, name.as_str(), dns_subdomain(name));
            }
        }
        if count == 0 {
            errors.invalid(&path, "", "must specify one of: `configMapRef` or `secretRef`");
        } else if count > 1 {
            errors.invalid(&path, "", "may not have more than one field specified at a time");
        }
    }
}
