//! Frequently used properties of a pod. A pod that reached the agent has a name, a namespace, a uid
//! and a specification: sources ensure that.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use model::cluster::PodPhase;
use model::ids::{PodName, PodUid};

use crate::{annotations, ephemeral};

/// The pod's uid.
pub fn uid(pod: &Pod) -> PodUid {
    pod.metadata.uid.as_deref().unwrap_or_default().into()
}

/// The pod's namespace and name.
pub fn pod_name(pod: &Pod) -> PodName {
    let text = |field: &Option<String>| field.as_deref().unwrap_or_default().to_owned();
    PodName::new(text(&pod.metadata.namespace), text(&pod.metadata.name))
}

/// The pod's containers, init and ephemeral ones aside.
pub fn containers(pod: &Pod) -> &[Container] {
    spec(pod).map(|spec| spec.containers.as_slice()).unwrap_or_default()
}

/// The pod's init containers, sidecars among them.
pub fn init_containers(pod: &Pod) -> &[Container] {
    spec(pod).and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default()
}

/// The pod's ephemeral containers, converted to containers.
pub fn ephemeral_containers(pod: &Pod) -> Vec<Container> {
    let ephemeral = spec(pod).and_then(|spec| spec.ephemeral_containers.as_deref());
    ephemeral.unwrap_or_default().iter().cloned().map(ephemeral::to_container).collect()
}

/// Whether an init container is a sidecar.
pub fn is_sidecar(init_container: &Container) -> bool {
    init_container.restart_policy.as_deref() == Some("Always")
}

/// The pod's specification.
pub fn spec(pod: &Pod) -> Option<&PodSpec> {
    pod.spec.as_ref()
}

/// Whether the pod uses the host network.
pub fn host_network(pod: &Pod) -> bool {
    spec(pod).and_then(|spec| spec.host_network).unwrap_or(false)
}

/// Whether the pod is being deleted.
pub fn is_being_deleted(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Whether the pod is a static pod.
pub fn is_static(pod: &Pod) -> bool {
    annotation(pod, annotations::CONFIG_SOURCE).is_some_and(|from| from != annotations::SOURCE_API)
}

/// Whether a pod of the API is a mirror pod: it has the annotation, and its node owns it. The annotation alone
/// proves nothing: every user who may create pods can write it.
pub fn is_mirror(pod: &Pod) -> bool {
    mirrored(pod).is_some()
}

/// The uid of the static pod that a mirror pod shows.
pub fn mirrored(pod: &Pod) -> Option<&str> {
    annotation(pod, annotations::CONFIG_MIRROR).filter(|_| is_owned_by_its_node(pod))
}

fn is_owned_by_its_node(pod: &Pod) -> bool {
    let Some(node) = spec(pod).and_then(|spec| spec.node_name.as_deref()) else { return false };
    let mut owners = pod.metadata.owner_references.iter().flatten();
    owners.any(|owner| (&*owner.api_version, &*owner.kind, &*owner.name) == ("v1", "Node", node))
}

/// The resource version; empty for an object that is not from the API.
pub fn version(pod: &Pod) -> &str {
    pod.metadata.resource_version.as_deref().unwrap_or_default()
}

/// Whether the pod's phase is terminal.
pub fn is_terminal(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    phase.is_some_and(|phase| PodPhase::named(phase).is_final())
}

/// Whether the pod's status shows an eviction, by any component.
pub fn is_evicted(pod: &Pod) -> bool {
    pod.status.as_ref().is_some_and(|status| {
        let is_failed = status.phase.as_deref().map(PodPhase::named) == Some(PodPhase::Failed);
        is_failed && status.reason.as_deref() == Some("Evicted")
    })
}

/// The priority from which on pods are critical.
const CRITICAL: i32 = 2_000_000_000;

/// The built-in priority classes and their values.
const SYSTEM_CLASSES: [(&str, i32); 2] =
    [("system-cluster-critical", CRITICAL), ("system-node-critical", CRITICAL + 1000)];

/// The pod's priority, if it is set. An API server resolves the class and writes its value
/// into the pod; users could write any class name. For manifests only the built-in
/// classes are resolved.
pub fn priority(pod: &Pod) -> Option<i32> {
    let spec = spec(pod)?;
    let class = spec.priority_class_name.as_deref().filter(|_| is_static(pod));
    let of_class = || SYSTEM_CLASSES.iter().find(|(name, _)| class == Some(*name));
    spec.priority.or_else(|| of_class().map(|(_, priority)| *priority))
}

/// Whether the pod is critical; static pods are.
pub fn is_critical(pod: &Pod) -> bool {
    is_static(pod) || is_mirror(pod) || priority(pod).is_some_and(|priority| priority >= CRITICAL)
}

fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}
