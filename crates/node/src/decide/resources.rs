//! Quantities of resources in the node object.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use podspec::quantity::Quantity;
use podspec::resources::{
    Amounts, CPU, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY, PODS, is_extended,
};

/// Resource name to quantity, as in the API.
pub type ResourceList = BTreeMap<String, ApiQuantity>;

/// Resources that a ready node must have; the last one only with local storage.
pub const REQUIRED: [&str; 4] = [CPU, MEMORY, PODS, EPHEMERAL_STORAGE];

/// The required resources that are missing.
pub fn missing(capacity: &ResourceList, local_storage: bool) -> Vec<&'static str> {
    let required = REQUIRED.into_iter().filter(|name| local_storage || *name != EPHEMERAL_STORAGE);
    required.filter(|name| !capacity.contains_key(*name)).collect()
}

/// The capacity that follows `previous`: the agent's own resources, and those that other clients added.
pub fn capacity(previous: &ResourceList, own: &Amounts) -> ResourceList {
    let mut all = previous.clone();
    put(&mut all, own);
    all
}

/// The allocatable resources that follow `previous`. Resources that other clients added are fully allocatable.
pub fn allocatable(
    previous: &ResourceList,
    capacity: &ResourceList,
    own: &Amounts,
) -> ResourceList {
    let mut all = previous.clone();
    all.retain(|name, _| capacity.contains_key(name) || !is_extended(name));
    for (name, amount) in capacity {
        if !own.contains_key(name) && !is_same(all.get(name), amount) {
            all.insert(name.clone(), amount.clone());
        }
    }
    put(&mut all, own);
    all
}

/// Sets quantities; an equal one keeps its notation.
fn put(all: &mut ResourceList, own: &Amounts) {
    for (name, amount) in own {
        let text = written(name, amount);
        if !is_same(all.get(name), &text) {
            all.insert(name.clone(), text);
        }
    }
}

/// Whether two quantities are equal.
fn is_same(one: Option<&ApiQuantity>, other: &ApiQuantity) -> bool {
    one.is_some_and(|one| {
        let amounts = (Quantity::parse(&one.0), Quantity::parse(&other.0));
        one == other || matches!(amounts, (Ok(one), Ok(other)) if one == other)
    })
}

/// A quantity of zero.
fn none() -> ApiQuantity {
    ApiQuantity("0".to_owned())
}

/// Sets these devices to zero. They are not removed: that shows other clients, and admission, that the node
/// counts them itself.
pub fn set_to_zero<'a>(node: &mut Node, devices: impl Iterator<Item = &'a String> + Clone) {
    let devices = devices.filter(|name| is_extended(name));
    if devices.clone().next().is_none() {
        return;
    }
    let status = node.status.get_or_insert_default();
    for found in [&mut status.capacity, &mut status.allocatable] {
        let found = found.get_or_insert_default();
        found.extend(devices.clone().map(|name| (name.clone(), none())));
    }
}

/// Whether the resource is a size of huge pages.
pub fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES_PREFIX)
}

/// The quantity in upstream's notation: bytes by powers of two, others by powers of ten.
fn written(name: &str, amount: &Quantity) -> ApiQuantity {
    let is_bytes = name == MEMORY || name == EPHEMERAL_STORAGE || is_huge_pages(name);
    let amount = if is_bytes { amount.in_binary() } else { *amount };
    ApiQuantity(amount.to_string())
}

#[cfg(test)]
#[path = "resources_tests.rs"]
mod tests;
