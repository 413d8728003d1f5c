//! Checks whether the node has enough resources.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use model::admission::Rejection;
use model::quantity::Quantity;
use podspec::resources::{
    self, Amounts, CPU, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY, PODS, is_extended, is_scalar,
};

use super::{Node, Occupancy};

/// Whole numbers by resource: thousandths of processors, units of everything else.
pub(super) type Units = BTreeMap<String, i64>;

/// A resource that the node lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Insufficient {
    pub(super) resource: String,
    pub(super) requested: i64,
    pub(super) used: i64,
    pub(super) capacity: i64,
}

impl Insufficient {
    /// The missing quantity.
    pub(super) fn missing(&self) -> i64 {
        self.requested.saturating_sub(self.capacity.saturating_sub(self.used))
    }

    pub(super) fn rejection(&self) -> Rejection {
        let Self { resource, requested, used, capacity } = self;
        let message = format!(
            "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, \
             capacity: {capacity}"
        );
        Rejection { reason: format!("OutOf{resource}").into(), message }
    }

    /// The numbers of [`Self::rejection`] in manifest notation. Upstream's rejection of a critical pod has
    /// only the difference.
    pub(super) fn explained(&self) -> String {
        let Self { resource, requested, used, capacity } = self;
        let written = |units: &i64| written(resource, *units);
        let (requested, used, capacity) = (written(requested), written(used), written(capacity));
        format!(
            "Not enough {resource}: the pod requests {requested}, the node has {capacity}, other pods \
             request {used}."
        )
    }
}

/// The quantity of a resource in manifest notation.
fn written(resource: &str, units: i64) -> String {
    if resource == CPU {
        return if units % 1000 == 0 { (units / 1000).to_string() } else { format!("{units}m") };
    }
    let text = units.to_string();
    let in_bytes =
        [MEMORY, EPHEMERAL_STORAGE].contains(&resource) || resource.starts_with(HUGE_PAGES_PREFIX);
    match Quantity::parse(&text) {
        Ok(amount) if in_bytes => amount.in_binary().to_string(),
        _ => text,
    }
}

/// The resources that are insufficient for a pod, in order.
pub(super) fn insufficient(pod: &Pod, there: &Occupancy, node: &Node) -> Vec<Insufficient> {
    let allocatable = units(&node.allocatable);
    let of = |units: &Units, name: &str| units.get(name).copied().unwrap_or(0);
    let mut lacking = Vec::new();
    let (count, most) = (there.count(), of(&allocatable, PODS));
    if count >= most {
        let resource = PODS.to_owned();
        lacking.push(Insufficient { resource, requested: 1, used: count, capacity: most });
    }
    let wanted = requested(pod, &allocatable);
    let always = [CPU, MEMORY, EPHEMERAL_STORAGE];
    let others = wanted.keys().map(String::as_str).filter(|name| !always.contains(name));
    for name in always.into_iter().chain(others) {
        let (requested, used) = (of(&wanted, name), of(there.requests(), name));
        let capacity = of(&allocatable, name);
        if requested > 0 && requested > capacity.saturating_sub(used) {
            lacking.push(Insufficient { resource: name.to_owned(), requested, used, capacity });
        }
    }
    lacking
}

/// The requests of a pod. Of extended resources, only those that the node has.
fn requested(pod: &Pod, allocatable: &Units) -> Units {
    let mut wanted = resources::pod_requests(pod);
    wanted.retain(|name, _| !is_extended(name) || allocatable.contains_key(name));
    sum(wanted, resources::overhead(pod))
}

/// The resources that a pod uses on its node.
pub(super) fn taken(pod: &Pod) -> Units {
    sum(resources::pod_requests(pod), resources::overhead(pod))
}

fn sum(mut amounts: Amounts, more: Amounts) -> Units {
    for (name, amount) in more {
        let before = amounts.get(&name).copied();
        amounts.insert(name, before.map_or(amount, |before| before + amount));
    }
    let mut units = units(&amounts);
    units.retain(|name, _| {
        [CPU, MEMORY, EPHEMERAL_STORAGE].contains(&name.as_str()) || is_scalar(name)
    });
    units
}

fn units(amounts: &Amounts) -> Units {
    let in_units = amounts.iter().map(|(name, amount)| {
        let units = if name == CPU { amount.milli_value() } else { amount.value() };
        (name.clone(), units)
    });
    in_units.collect()
}

/// The quantity of a resource that is freed when a pod terminates.
pub(super) fn freed_by(pod: &Pod, resource: &str) -> i64 {
    if resource == PODS {
        return 1;
    }
    let whole = resources::requests_of_whole(pod);
    let is_whole = !whole.is_empty() || !resources::limits_of_whole(pod).is_empty();
    let requests = if is_whole { whole } else { resources::containers_requests(pod) };
    // Overhead only counts together with requests.
    let Some(quantity) = requests.get(resource).filter(|quantity| !quantity.is_zero()) else {
        return 0;
    };
    let overhead = resources::overhead(pod).get(resource).copied();
    let freed = overhead.map_or(*quantity, |overhead| *quantity + overhead);
    if resource == CPU { freed.milli_value() } else { freed.value() }
}
