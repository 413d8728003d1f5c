//! Amounts of resources, as the node object tells them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use podspec::quantity::Quantity;
use podspec::resources::{
    Amounts, CPU, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY, PODS, is_extended,
};

/// Resource name to amount, as the API keeps it.
pub type ResourceList = BTreeMap<String, ApiQuantity>;

/// Without these a node is not ready; without the last one only where the disk counts.
pub const REQUIRED: [&str; 4] = [CPU, MEMORY, PODS, EPHEMERAL_STORAGE];

/// What of the required resources is missing.
pub fn missing(capacity: &ResourceList, local_storage: bool) -> Vec<&'static str> {
    let required = REQUIRED.into_iter().filter(|name| local_storage || *name != EPHEMERAL_STORAGE);
    required.filter(|name| !capacity.contains_key(*name)).collect()
}

/// What a node has after `previous`: what the agent knows of, and what others have added.
pub fn capacity(previous: &ResourceList, own: &Amounts) -> ResourceList {
    let mut all = previous.clone();
    put(&mut all, own);
    all
}

/// What pods can have after `previous` of that capacity. What others have added, pods can have all of.
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

/// Puts amounts in; one that is there already stays as it is written.
fn put(all: &mut ResourceList, own: &Amounts) {
    for (name, amount) in own {
        let text = written(name, amount);
        if !is_same(all.get(name), &text) {
            all.insert(name.clone(), text);
        }
    }
}

/// Whether one amount is as much as another.
fn is_same(one: Option<&ApiQuantity>, other: &ApiQuantity) -> bool {
    one.is_some_and(|one| {
        let amounts = (Quantity::parse(&one.0), Quantity::parse(&other.0));
        one == other || matches!(amounts, (Ok(one), Ok(other)) if one == other)
    })
}

/// Nothing of a resource.
fn none() -> ApiQuantity {
    ApiQuantity("0".to_owned())
}

/// There are none of these devices. They are not left out: others see from it that it is the node who counts them, and
/// so does who lets pods in.
pub fn tell_none<'a>(node: &mut Node, devices: impl Iterator<Item = &'a String> + Clone) {
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

/// Whether it is a size of huge pages.
pub fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES_PREFIX)
}

/// The amount of a resource in upstream's notation: bytes by powers of two, all else by powers of ten.
fn written(name: &str, amount: &Quantity) -> ApiQuantity {
    let is_bytes = name == MEMORY || name == EPHEMERAL_STORAGE || is_huge_pages(name);
    let amount = if is_bytes { amount.in_binary() } else { *amount };
    ApiQuantity(amount.to_string())
}

#[cfg(test)]
#[path = "resources_tests.rs"]
mod tests;
