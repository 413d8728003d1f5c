//! What status and event of an evicted pod say.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{Container, Pod};
use model::quantity::Quantity;
use model::stats::{ContainerStats, FsStats, PodStats};
use podspec::resources::{EPHEMERAL_STORAGE, MEMORY, requests, requests_of_whole};
use podspec::view;

use super::observation::{bytes, number};
use super::signal::Resource;
use super::tracker::Crossed;

/// The reason of the status and of the event.
pub const EVICTED: &str = "Evicted";

/// The message and the annotations of an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvictionMessage {
    /// The message.
    pub text: String,
    /// The annotations of the event.
    pub annotations: Vec<(&'static str, String)>,
}

/// The message for a pod that is evicted by a threshold. Containers are named that use more than they request.
pub fn message(pod: &Pod, crossed: &Crossed, stats: Option<&PodStats>) -> EvictionMessage {
    let (resource, threshold, available) =
        (crossed.resource(), crossed.quantity(), crossed.available());
    let mut text = format!(
        "The node was low on resource: {resource}. \
         Threshold quantity: {threshold}, available: {available}. "
    );
    let Some(stats) = stats else { return EvictionMessage { text, annotations: Vec::new() } };
    let mut annotations = Vec::new();
    if let Some((used, request)) = pod_level_memory(pod, resource, stats) {
        let name = view::pod_name(pod).name.to_string();
        add_consumer(&mut text, "Pod", &name, [used, request], resource);
        annotations.push(("offending_pod", name));
        annotations.push(("offending_pod_usage", used.to_string()));
    }
    let (mut names, mut usages) = (Vec::new(), Vec::new());
    for container in &stats.containers {
        let Some((used, request)) = excess(pod, resource, container) else { continue };
        add_consumer(&mut text, "Container", &container.name, [used, request], resource);
        names.push(container.name.as_str());
        usages.push(used.to_string());
    }
    annotations.push(("offending_containers", names.join(",")));
    annotations.push(("offending_containers_usage", usages.join(",")));
    annotations.push(("starved_resource", resource.as_str().to_owned()));
    EvictionMessage { text, annotations }
}

fn add_consumer(
    text: &mut String,
    kind: &str,
    name: &str,
    numbers: [Quantity; 2],
    resource: Resource,
) {
    let [used, request] = numbers;
    write!(
        text,
        "{kind} {name} was using {used}, request is {request}, has larger consumption of {resource}. "
    )
    .expect("a string takes every text");
}

/// The memory of a pod with pod-level requests, and that request.
fn pod_level_memory(
    pod: &Pod,
    resource: Resource,
    stats: &PodStats,
) -> Option<(Quantity, Quantity)> {
    let memory = stats.memory.as_ref().filter(|_| resource == Resource::Memory)?;
    let request = *requests_of_whole(pod).get(MEMORY)?;
    Some((bytes(number(memory.working_set_bytes.unwrap_or(0))), request))
}

/// What a container uses and requests, if it uses more. Ephemeral containers cannot request anything and are no part
/// of the message.
fn excess(pod: &Pod, resource: Resource, stats: &ContainerStats) -> Option<(Quantity, Quantity)> {
    let mut containers = view::containers(pod).iter().chain(view::init_containers(pod));
    let container = containers.find(|container| container.name == stats.name)?;
    let (used, request) = match resource {
        Resource::Memory => {
            (stats.memory.as_ref()?.working_set_bytes?, requested(container, MEMORY))
        }
        Resource::EphemeralStorage => {
            let bytes = |fs: &Option<FsStats>| fs.as_ref()?.used_bytes;
            let used = bytes(&stats.rootfs)?.saturating_add(bytes(&stats.logs)?);
            (used, requested(container, EPHEMERAL_STORAGE))
        }
        Resource::Inodes | Resource::Pids => return None,
    };
    let used = bytes(number(used));
    (used > request).then_some((used, request))
}

fn requested(container: &Container, resource: &str) -> Quantity {
    requests(container).get(resource).copied().unwrap_or(Quantity::ZERO)
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
