//! Rules for volumes whose files the agent writes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, DownwardAPIVolumeFile, DownwardAPIVolumeSource, KeyToPath,
    ProjectedVolumeSource, SecretVolumeSource, ServiceAccountTokenProjection, VolumeProjection,
};

use super::field_ref::{self, FILE_FIELDS};
use super::{paths, word};
use crate::field_error::{FieldErrors, FieldPath};

/// The minimum lifetime of a token.
const TOKEN_MIN_SECONDS: i64 = 600;
/// The maximum lifetime of a token.
const TOKEN_MAX_SECONDS: i64 = 1 << 32;

pub(super) fn check_secret(
    source: &SecretVolumeSource,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    if word(source.secret_name.as_ref()).is_empty() {
        errors.required(&path.child("secretName"), "");
    }
    paths::check_mode(source.default_mode, &path.child("defaultMode"), errors);
    check_keys(source.items.iter().flatten(), &path.child("items"), errors);
}

pub(super) fn check_config_map(
    source: &ConfigMapVolumeSource,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    if source.name.is_empty() {
        errors.required(&path.child("name"), "");
    }
    paths::check_mode(source.default_mode, &path.child("defaultMode"), errors);
    check_keys(source.items.iter().flatten(), &path.child("items"), errors);
}

pub(super) fn check_downward_api(
    source: &DownwardAPIVolumeSource,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    paths::check_mode(source.default_mode, &path.child("defaultMode"), errors);
    check_items(source.items.iter().flatten(), &path.child("items"), errors);
}

pub(super) fn check_projected(
    source: &ProjectedVolumeSource,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    paths::check_mode(source.default_mode, &path.child("defaultMode"), errors);
    let mut written = BTreeSet::new();
    for (index, projection) in source.sources.iter().flatten().enumerate() {
        let projection_path = path.child("sources").index(index);
        check_projection(projection, &projection_path, errors);
        for file in files(projection) {
            if !file.is_empty() && !written.insert(file) {
                errors.invalid(&projection_path, file, "conflicting duplicate paths");
            }
        }
    }
}

/// A token belongs to a service account.
pub(super) fn check_no_tokens(
    source: &ProjectedVolumeSource,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    for (index, projection) in source.sources.iter().flatten().enumerate() {
        if projection.service_account_token.is_some() {
            let path = path.child("sources").index(index).child("serviceAccountToken");
            errors.forbidden(&path, "must not be specified when serviceAccountName is not set");
        }
    }
}

fn check_projection(projection: &VolumeProjection, path: &FieldPath, errors: &mut FieldErrors) {
    let mut count = 0;
    if let Some(secret) = &projection.secret {
        count += 1;
        let path = path.child("secret");
        if secret.name.is_empty() {
            errors.required(&path.child("name"), "");
        }
        check_keys(secret.items.iter().flatten(), &path.child("items"), errors);
    }
    if let Some(config_map) = &projection.config_map {
        count += 1;
        let path = path.child("configMap");
        if config_map.name.is_empty() {
            errors.required(&path.child("name"), "");
        }
        check_keys(config_map.items.iter().flatten(), &path.child("items"), errors);
    }
    if let Some(downward_api) = &projection.downward_api {
        count += 1;
        let path = path.child("downwardAPI").child("items");
        check_items(downward_api.items.iter().flatten(), &path, errors);
    }
    if let Some(token) = &projection.service_account_token {
        count += 1;
        check_token(token, &path.child("serviceAccountToken"), errors);
    }
    if let Some(bundle) = &projection.cluster_trust_bundle {
        count += 1;
        check_file_path(&bundle.path, &path.child("clusterTrustBundle").child("path"), errors);
    }
    if let Some(certificate) = &projection.pod_certificate {
        count += 1;
        let path = path.child("podCertificate");
        let files = [
            ("credentialBundlePath", &certificate.credential_bundle_path),
            ("keyPath", &certificate.key_path),
            ("certificateChainPath", &certificate.certificate_chain_path),
        ];
        for (field, file) in files {
            paths::check_volume_file(word(file.as_ref()), &path.child(field), errors);
        }
    }
    if count > 1 {
        errors.forbidden(path, "may not specify more than 1 volume type per source");
    }
}

/// The fixed paths of the files of a projection.
fn files(projection: &VolumeProjection) -> impl Iterator<Item = &str> {
    let secret = projection.secret.iter().flat_map(|source| source.items.iter().flatten());
    let config_map = projection.config_map.iter().flat_map(|source| source.items.iter().flatten());
    let downward = projection.downward_api.iter().flat_map(|source| source.items.iter().flatten());
    let token = projection.service_account_token.iter().map(|source| source.path.as_str());
    let bundle = projection.cluster_trust_bundle.iter().map(|source| source.path.as_str());
    let certificate = projection.pod_certificate.iter().flat_map(|source| {
        [&source.credential_bundle_path, &source.key_path, &source.certificate_chain_path]
            .map(|file| word(file.as_ref()))
    });
    secret
        .chain(config_map)
        .map(|item| item.path.as_str())
        .chain(downward.map(|item| item.path.as_str()))
        .chain(token)
        .chain(bundle)
        .chain(certificate)
}

fn check_token(token: &ServiceAccountTokenProjection, path: &FieldPath, errors: &mut FieldErrors) {
    let seconds_path = path.child("expirationSeconds");
    if let Some(seconds) = token.expiration_seconds {
        if seconds < TOKEN_MIN_SECONDS {
            let problem = "may not specify a duration less than 10 minutes";
            errors.invalid(&seconds_path, seconds, problem);
        }
        if seconds > TOKEN_MAX_SECONDS {
            let problem = "may not specify a duration larger than 2^32 seconds";
            errors.invalid(&seconds_path, seconds, problem);
        }
    }
    check_file_path(&token.path, &path.child("path"), errors);
}

fn check_keys<'a>(
    items: impl Iterator<Item = &'a KeyToPath>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    for (index, item) in items.enumerate() {
        let path = path.index(index);
        if item.key.is_empty() {
            errors.required(&path.child("key"), "");
        }
        check_file_path(&item.path, &path.child("path"), errors);
        paths::check_mode(item.mode, &path.child("mode"), errors);
    }
}

fn check_items<'a>(
    items: impl Iterator<Item = &'a DownwardAPIVolumeFile>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    for (index, item) in items.enumerate() {
        let path = path.index(index);
        check_file_path(&item.path, &path.child("path"), errors);
        if let Some(selector) = &item.field_ref {
            field_ref::check_field(selector, FILE_FIELDS, &path.child("fieldRef"), errors);
        }
        match (&item.field_ref, &item.resource_field_ref) {
            (Some(_), Some(_)) => {
                let problem = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.invalid(&path, "resource", problem);
            }
            (None, Some(selector)) => {
                field_ref::check_resource(selector, true, &path.child("resourceFieldRef"), errors);
            }
            (None, None) => {
                errors.required(&path, "one of fieldRef and resourceFieldRef is required");
            }
            (Some(_), None) => {}
        }
        paths::check_mode(item.mode, &path.child("mode"), errors);
    }
}

fn check_file_path(file: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if file.is_empty() {
        errors.required(path, "");
    }
    paths::check_volume_file(file, path, errors);
}
