//! Values of the downward API for variables and files.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};
use model::go_text::quoted;

use crate::quantity::Quantity;
use crate::resources::{self, Amounts, CPU, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY};
use crate::view;

/// A field of the pod's metadata, by its path; `None` for an unknown path.
pub fn metadata_field(pod: &Pod, path: &str) -> Option<String> {
    let metadata = &pod.metadata;
    let text = |field: &Option<String>| Some(field.clone().unwrap_or_default());
    match path {
        "metadata.name" => text(&metadata.name),
        "metadata.namespace" => text(&metadata.namespace),
        "metadata.uid" => text(&metadata.uid),
        "metadata.labels" => Some(lines(metadata.labels.as_ref())),
        "metadata.annotations" => Some(lines(metadata.annotations.as_ref())),
        _ => None,
    }
}

/// A map as lines of `key="value"`, by key.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let lines = map.into_iter().flatten().map(|(key, value)| format!("{key}={}", quoted(value)));
    lines.collect::<Vec<_>>().join("\n")
}

/// `metadata.labels['key']` as its two parts.
pub fn subscript(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['").filter(|(map, _)| !map.is_empty())
}

/// The container of that name, and whether it is a regular one. Ephemeral containers have no resources.
pub fn container_named<'a>(pod: &'a Pod, name: &str) -> Option<(&'a Container, bool)> {
    let regular = view::containers(pod).iter().map(|container| (container, true));
    let init = view::init_containers(pod).iter().map(|container| (container, false));
    regular.chain(init).find(|(container, _)| container.name == name)
}

/// The limits of a container. A missing one is taken from the first default that has it.
pub fn limits_or(container: &Container, defaults: &[&Amounts]) -> Amounts {
    let mut limits = resources::limits(container);
    for name in [CPU, MEMORY, EPHEMERAL_STORAGE] {
        let is_set = limits.get(name).is_some_and(|limit| !limit.is_zero());
        let mut set = defaults.iter().filter_map(|amounts| amounts.get(name));
        if !is_set && let Some(amount) = set.find(|amount| !amount.is_zero()) {
            limits.insert(name.to_owned(), *amount);
        }
    }
    limits
}

/// A request or limit of a container in the requested unit, rounded up; `None` for an unknown resource.
pub fn resource(
    selector: &ResourceFieldSelector,
    container: &Container,
    limits: &Amounts,
) -> Option<String> {
    let (list, name) = selector.resource.split_once('.')?;
    if !matches!(name, CPU | MEMORY | EPHEMERAL_STORAGE) && !name.starts_with(HUGE_PAGES_PREFIX) {
        return None;
    }
    let amount = match list {
        "requests" => resources::requests(container).get(name).copied(),
        "limits" => limits.get(name).copied(),
        _ => return None,
    };
    let amount = amount.unwrap_or(Quantity::ZERO);
    let divisor = selector.divisor.as_ref().and_then(|text| Quantity::parse(&text.0).ok());
    let divisor = divisor.filter(|divisor| !divisor.is_zero());
    let (amount, divisor) = if name == CPU {
        (amount.milli_value(), divisor.map_or(1000, |divisor| divisor.milli_value()))
    } else {
        (amount.value(), divisor.map_or(1, |divisor| divisor.value()))
    };
    Some(divided(amount, divisor).to_string())
}

/// The quotient, rounded up.
fn divided(amount: i64, divisor: i64) -> i64 {
    let (amount, divisor) = (i128::from(amount), i128::from(divisor.max(1)));
    i64::try_from((amount + divisor - 1).div_euclid(divisor)).unwrap_or(i64::MAX)
}
