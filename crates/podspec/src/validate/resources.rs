//! Rules for resources.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PodSpec, ResourceClaim, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::PodContext;
use crate::field_error::{FieldErrors, FieldPath};
use crate::names::{dns_label, dns_subdomain, qualified_name};
use crate::quantity::Quantity;
use crate::resources::{
    CPU, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY, ResourceList, aggregate, amounts,
    is_huge_pages, is_native, is_pod_level, may_overcommit,
};

const POD_RESOURCES: &[&str] = &[CPU, HUGE_PAGES_PREFIX, MEMORY];

type NameRule = fn(&str, &FieldPath, &mut FieldErrors);

pub(super) fn check_container(
    requirements: &ResourceRequirements,
    path: &FieldPath,
    context: &PodContext<'_>,
    errors: &mut FieldErrors,
) {
    check_requirements(requirements, check_container_name, path, errors);
    let claims = requirements.claims.iter().flatten();
    check_used_claims(claims, &path.child("claims"), context, errors);
}

/// Names reserved by runtimes.
pub(super) fn check_overhead(overhead: &ResourceList, path: &FieldPath, errors: &mut FieldErrors) {
    for (name, text) in overhead {
        check_container_name(name, &path.key(name), errors);
        check_amount(name, text, &path.key(name), errors);
    }
}

/// Pod-level resources, and their relation to those of the containers.
pub(super) fn check_pod_level(
    spec: &PodSpec,
    path: &FieldPath,
    context: &PodContext<'_>,
    errors: &mut FieldErrors,
) {
    let Some(resources) = &spec.resources else {
        return;
    };
    if context.os == Some("windows") {
        errors.forbidden(path, "may not be set for a windows pod");
        return;
    }
    if resources.claims.is_some() {
        let problem = "claims may not be set for Resources at pod-level";
        errors.forbidden(&path.child("claims"), problem);
    }
    check_requirements(resources, check_pod_name, path, errors);
    let requests = amounts(resources.requests.as_ref());
    for (name, needed) in aggregate(spec, |r| r.requests.as_ref()) {
        if let Some(request) = requests.get(&name).filter(|request| **request < needed) {
            let problem = "must be greater than or equal to aggregate container requests of";
            let path = path.child("requests").key(&name);
            errors.invalid(&path, request.to_string(), format!("{problem} {needed}"));
        }
    }
    let limits = amounts(resources.limits.as_ref());
    for (name, needed) in aggregate(spec, |r| r.limits.as_ref()) {
        let limit = limits.get(&name).filter(|limit| is_huge_pages(&name) && **limit < needed);
        if let Some(limit) = limit {
            let problem = "must be greater than or equal to aggregate container limits of";
            let path = path.child("limits").key(&name);
            errors.invalid(&path, limit.to_string(), format!("{problem} {needed}"));
        }
    }
    for (index, container) in spec.containers.iter().enumerate() {
        let own = amounts(container.resources.as_ref().and_then(|r| r.limits.as_ref()));
        for (name, own) in own {
            if let Some(limit) = limits.get(&name).filter(|limit| **limit < own) {
                let path = FieldPath::from("spec").child("containers").index(index);
                let path = path.child("resources").child("limits").key(&name);
                let problem = format!("must be less than or equal to pod limits of {limit}");
                errors.invalid(&path, own.to_string(), problem);
            }
        }
    }
}

fn check_requirements(
    requirements: &ResourceRequirements,
    check_name: NameRule,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    for (field, list) in [("limits", &requirements.limits), ("requests", &requirements.requests)] {
        for (name, text) in list.iter().flatten() {
            let path = path.child(field).key(name);
            check_name(name, &path, errors);
            check_amount(name, text, &path, errors);
        }
    }
    let limits = amounts(requirements.limits.as_ref());
    let requests = amounts(requirements.requests.as_ref());
    let requests_path = path.child("requests");
    for (name, request) in &requests {
        let problem = match limits.get(name) {
            Some(limit) if request != limit && !may_overcommit(name) => {
                format!("must be equal to {name} limit of {limit}")
            }
            Some(limit) if request > limit => {
                format!("must be less than or equal to {name} limit of {limit}")
            }
            None if !may_overcommit(name) => {
                let problem = "Limit must be set for non overcommitable resources";
                errors.required(&path.child("limits"), problem);
                continue;
            }
            _ => continue,
        };
        errors.invalid(&requests_path, request.to_string(), problem);
    }
    let names: BTreeSet<&str> = limits.keys().chain(requests.keys()).map(String::as_str).collect();
    let has_huge_pages = names.iter().any(|name| is_huge_pages(name));
    if has_huge_pages && !names.contains(CPU) && !names.contains(MEMORY) {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
}

fn check_amount(name: &str, text: &ApiQuantity, path: &FieldPath, errors: &mut FieldErrors) {
    let amount = match Quantity::parse(&text.0) {
        Ok(amount) => amount,
        Err(error) => return errors.invalid(path, text.0.as_str(), error.to_string()),
    };
    if amount.is_negative() {
        errors.invalid(path, text.0.as_str(), "must be greater than or equal to 0");
    }
    if is_extended(name) && !amount.is_whole() {
        errors.invalid(path, text.0.as_str(), "must be an integer");
    }
    if let Some(page) = name.strip_prefix(HUGE_PAGES_PREFIX) {
        let page = Quantity::parse(page).ok();
        if !page.is_some_and(|page| page.is_whole() && amount.is_multiple_of(&page)) {
            let problem = format!("{} is not positive integer multiple of {name}", text.0);
            errors.invalid(path, text.0.as_str(), problem);
        }
    }
}

fn check_container_name(name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    errors.invalid_each(path, name, qualified_name(name));
    let is_standard = matches!(name, CPU | MEMORY | EPHEMERAL_STORAGE) || is_huge_pages(name);
    if !name.contains('/') && !is_standard {
        errors.invalid(path, name, "must be a standard resource for containers");
    } else if !is_native(name) && !is_extended(name) {
        errors.invalid(path, name, "doesn't follow extended resource name standard");
    }
}

fn check_pod_name(name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if !is_pod_level(name) {
        errors.not_supported(path, name, POD_RESOURCES);
    }
}

/// Whether it is an extended resource, which is counted in whole numbers.
fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && qualified_name(&format!("requests.{name}")).is_empty()
}

/// The resource claims of a pod.
pub(super) fn check_claims(spec: &PodSpec, path: &FieldPath, errors: &mut FieldErrors) {
    let mut names = BTreeSet::new();
    for (index, claim) in spec.resource_claims.iter().flatten().enumerate() {
        let path = path.index(index);
        let name = claim.name.as_str();
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        } else if names.insert(name) {
            errors.invalid_each(&path.child("name"), name, dns_label(name));
        } else {
            errors.duplicate(&path.child("name"), name);
        }
        let sources = [
            ("resourceClaimName", &claim.resource_claim_name),
            ("resourceClaimTemplateName", &claim.resource_claim_template_name),
        ];
        let count = sources.iter().filter(|(_, source)| source.is_some()).count();
        if count == 0 {
            let problem = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
            errors.invalid(&path, name, problem);
        } else if count > 1 {
            let problem = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
            errors.invalid(&path, name, problem);
        }
        for (field, source) in sources {
            if let Some(name) = source {
                errors.invalid_each(&path.child(field), name.as_str(), dns_subdomain(name));
            }
        }
    }
}

/// The claims that a container uses.
fn check_used_claims<'a>(
    claims: impl Iterator<Item = &'a ResourceClaim>,
    path: &FieldPath,
    context: &PodContext<'_>,
    errors: &mut FieldErrors,
) {
    let mut used: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (index, claim) in claims.enumerate() {
        let path = path.index(index);
        let name = claim.name.as_str();
        if name.is_empty() {
            errors.required(&path, "");
            continue;
        }
        let request = super::word(claim.request.as_ref());
        if !request.is_empty() {
            errors.invalid_each(&path.child("request"), request, dns_label(request));
        }
        // A whole claim overlaps with each of its requests.
        let requests = used.entry(name).or_default();
        let overlaps = if request.is_empty() {
            !requests.is_empty()
        } else {
            requests.contains(request) || requests.contains("")
        };
        if overlaps {
            errors.duplicate(&path, name);
        }
        requests.insert(request);
        if !context.claim_names.contains(name) {
            let known: Vec<&str> = context.claim_names.iter().copied().collect();
            let known = if known.is_empty() {
                " which is empty".to_owned()
            } else {
                format!(": {}", known.join(", "))
            };
            let problem = format!("must be one of the names in pod.spec.resourceClaims{known}");
            errors.not_found(&path, name, problem);
        }
    }
}
