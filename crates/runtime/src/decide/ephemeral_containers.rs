//! Ephemeral containers: started once, never again.

use k8s_openapi::api::core::v1::Pod;
use model::observed::{ContainerState, RuntimePodStatus};
use podspec::view;

use super::actions::{ContainerStart, Role};
use super::reasons::StartReason;

/// The containers without an instance, or with one that never started: the call may have been
/// cancelled. They start whether or not the pod is initialized.
pub(super) fn ephemeral_starts(pod: &Pod, status: &RuntimePodStatus) -> Vec<ContainerStart> {
    let containers = view::spec(pod).and_then(|spec| spec.ephemeral_containers.as_deref());
    let containers = containers.unwrap_or_default().iter().enumerate();
    let starts = containers.filter_map(|(index, container)| {
        let latest = status.latest(&container.name);
        let is_new = latest.is_none_or(|latest| latest.state == ContainerState::Created);
        let why = StartReason::of_not_running(latest);
        is_new.then_some(ContainerStart { role: Role::Ephemeral, index, why })
    });
    starts.collect()
}
