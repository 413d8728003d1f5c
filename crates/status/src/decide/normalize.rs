//! Normalizes statuses, so that equal statuses compare equal after a round trip through the API.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The maximum total size of a pod's termination messages.
const MESSAGE_BYTES: usize = 12 * 1024;

/// Truncates times to whole seconds, like the API, and termination messages to each
/// container's share of the maximum.
pub(crate) fn normalize(status: &mut PodStatus) {
    whole_seconds(&mut status.start_time);
    for condition in status.conditions.iter_mut().flatten() {
        whole_seconds(&mut condition.last_probe_time);
        whole_seconds(&mut condition.last_transition_time);
    }
    let lists = [
        &mut status.container_statuses,
        &mut status.init_container_statuses,
        &mut status.ephemeral_container_statuses,
    ];
    let count: usize = lists.iter().map(|list| list.as_ref().map_or(0, Vec::len)).sum();
    let share = MESSAGE_BYTES / count.max(1);
    for container in lists.into_iter().flatten().flatten() {
        normalize_container(container, share);
    }
}

fn normalize_container(container: &mut ContainerStatus, share: usize) {
    normalize_state(container.state.as_mut(), share);
    normalize_state(container.last_state.as_mut(), share);
}

fn normalize_state(state: Option<&mut ContainerState>, share: usize) {
    let Some(state) = state else { return };
    if let Some(running) = &mut state.running {
        whole_seconds(&mut running.started_at);
    }
    if let Some(terminated) = &mut state.terminated {
        whole_seconds(&mut terminated.started_at);
        whole_seconds(&mut terminated.finished_at);
        if let Some(message) = &mut terminated.message {
            message.truncate(message.floor_char_boundary(share));
        }
    }
}

fn whole_seconds(time: &mut Option<Time>) {
    if let Some(Time(at)) = time {
        *at = Timestamp::from_second(at.as_second()).unwrap_or(*at);
    }
}
