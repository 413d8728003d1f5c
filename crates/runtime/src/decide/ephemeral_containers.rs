//! Ephemeral containers: started once, never again.

use k8s_openapi::api::core::v1::Pod;
use model::observed::PodStatus;
use podspec::view;

use super::actions::{ContainerStart, Role};
use super::reasons::StartReason;

/// Those of which there is no instance. They start whether or not the pod is initialised.
pub(super) fn ephemeral_starts(pod: &Pod, status: &PodStatus) -> Vec<ContainerStart> {
    let containers = view::spec(pod).and_then(|spec| spec.ephemeral_containers.as_deref());
    let containers = containers.unwrap_or_default().iter().enumerate();
    let absent = containers.filter(|(_, container)| status.latest(&container.name).is_none());
    let start = |(index, _)| ContainerStart { role: Role::Ephemeral, index, why: StartReason::New };
    absent.map(start).collect()
}
