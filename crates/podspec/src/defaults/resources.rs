//! Defaults of resources: requests follow limits, and quantities are normalized.

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use crate::quantity::Quantity;
use crate::resources::{ResourceList, aggregate, is_huge_pages, is_pod_level, may_overcommit};

/// The request of a container defaults to its limit.
pub(super) fn set_container_defaults(container: &mut Container) {
    let Some(resources) = &mut container.resources else {
        return;
    };
    normalize(resources);
    if let Some(limits) = &resources.limits {
        let requests = resources.requests.get_or_insert_default();
        for (name, limit) in limits {
            requests.entry(name.clone()).or_insert_with(|| limit.clone());
        }
    }
}

/// Pod-level requests default to the requests of the containers; without those
/// to the pod-level limit. Huge page limits of containers are a pod-level limit as well.
pub(super) fn set_pod_defaults(spec: &mut PodSpec) {
    if let Some(overhead) = &mut spec.overhead {
        normalize_list(overhead);
    }
    let Some(mut resources) = spec.resources.take() else {
        return;
    };
    normalize(&mut resources);
    let ResourceRequirements { limits, requests, .. } = &mut resources;
    if !is_empty(limits.as_ref()) || !is_empty(requests.as_ref()) {
        for (name, amount) in aggregate(spec, |r| r.limits.as_ref()) {
            let requested = requests.as_ref().is_some_and(|list| list.contains_key(&name));
            if is_huge_pages(&name) && !requested {
                set_missing(limits, name, amount.to_string());
            }
        }
    }
    if let Some(limits) = limits.as_ref().filter(|list| !list.is_empty()) {
        for (name, amount) in aggregate(spec, |r| r.requests.as_ref()) {
            if is_pod_level(&name) && may_overcommit(&name) {
                set_missing(requests, name, amount.to_string());
            }
        }
        for (name, limit) in limits.iter().filter(|(name, _)| is_pod_level(name)) {
            set_missing(requests, name.clone(), limit.0.clone());
        }
    }
    spec.resources = Some(resources);
}

fn is_empty(list: Option<&ResourceList>) -> bool {
    list.is_none_or(ResourceList::is_empty)
}

fn set_missing(list: &mut Option<ResourceList>, name: String, amount: String) {
    list.get_or_insert_default().entry(name).or_insert(ApiQuantity(amount));
}

fn normalize(resources: &mut ResourceRequirements) {
    for list in [&mut resources.limits, &mut resources.requests].into_iter().flatten() {
        normalize_list(list);
    }
}

/// Rounds up to thousandths, the finest unit of resources. Invalid quantities are kept
/// for validation to report.
pub(super) fn normalize_list(list: &mut ResourceList) {
    for text in list.values_mut() {
        if let Ok(quantity) = Quantity::parse(&text.0) {
            text.0 = quantity.rounded_to_thousandths().to_string();
        }
    }
}
