//! The validation rules of the API for a new pod, for every field that a node agent acts on.
//!
//! The pod already has its defaults. All problems are reported together, in the API's words;
//! a path differs where the API names no field of a pod (it says `spec.HostPID`, or leaves
//! the index out). Rules for fields that only the scheduler, controllers or another operating
//! system use are left out.

mod container;
mod containers;
mod device;
mod env;
mod field_ref;
mod file;
mod handler;
mod metadata;
mod mount;
mod network;
mod paths;
mod port;
mod resources;
mod restart;
mod scheduling;
mod security;
mod spec;
mod storage;
#[cfg(test)]
mod tests;
mod volume;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Volume};

use crate::field_error::{FieldError, FieldErrors, FieldPath};

/// All problems of a pod with defaults.
pub fn validate(pod: &Pod) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    metadata::check(pod, &FieldPath::from("metadata"), &mut errors);
    let path = FieldPath::from("spec");
    match &pod.spec {
        Some(spec) => spec::check(spec, &path, &mut errors),
        None => errors.required(&path, ""),
    }
    errors.into_vec()
}

/// Properties of the pod that rules for its parts depend on.
struct PodContext<'a> {
    volumes: BTreeMap<&'a str, &'a Volume>,
    claim_names: BTreeSet<&'a str>,
    restart_policy: &'a str,
    os: Option<&'a str>,
    /// Whether the pod uses the host's user namespace.
    host_users: bool,
    termination_grace_period_seconds: Option<i64>,
}

impl<'a> PodContext<'a> {
    fn new(spec: &'a PodSpec) -> Self {
        Self {
            volumes: spec.volumes.iter().flatten().map(|v| (v.name.as_str(), v)).collect(),
            claim_names: spec
                .resource_claims
                .iter()
                .flatten()
                .map(|claim| claim.name.as_str())
                .filter(|name| !name.is_empty())
                .collect(),
            restart_policy: word(spec.restart_policy.as_ref()),
            os: spec.os.as_ref().map(|os| os.name.as_str()),
            host_users: spec.host_users.unwrap_or(true),
            termination_grace_period_seconds: spec.termination_grace_period_seconds,
        }
    }
}

/// The string, empty if it is not set.
fn word(field: Option<&String>) -> &str {
    field.map_or("", String::as_str)
}

/// The containers of a pod, without ephemeral ones, with their paths.
fn containers_with_path<'a>(
    spec: &'a PodSpec,
    path: &FieldPath,
) -> impl Iterator<Item = (FieldPath, &'a Container)> {
    let lists = [
        (path.child("initContainers"), spec.init_containers.as_deref().unwrap_or_default()),
        (path.child("containers"), spec.containers.as_slice()),
    ];
    lists.into_iter().flat_map(|(path, list)| {
        list.iter().enumerate().map(move |(index, container)| (path.index(index), container))
    })
}

/// Checks that a string is one of the allowed ones.
fn check_word(word: &str, allowed: &[&str], path: &FieldPath, errors: &mut FieldErrors) {
    if word.is_empty() {
        errors.required(path, "");
    } else if !allowed.contains(&word) {
        errors.not_supported(path, word, allowed);
    }
}

/// Checks that an optional string is one of the allowed ones.
fn check_optional_word(
    word: Option<&String>,
    allowed: &[&str],
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    if let Some(word) = word
        && !allowed.contains(&word.as_str())
    {
        errors.not_supported(path, word, allowed);
    }
}

/// Checks that a number is not negative.
fn check_not_negative(number: Option<i64>, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(number) = number
        && number < 0
    {
        errors.invalid(path, number, "must be greater than or equal to 0");
    }
}
