//! Whether the containers of a pod are ready, and the pod.

use k8s_openapi::api::core::v1::{Container, Pod, PodCondition};
use podspec::view;

use super::{ConditionState, TRUE, name_list};
use crate::decide::container_statuses::Containers;
use crate::decide::phase::Phase;

/// Whether every regular container and sidecar is ready; upstream's
/// `GenerateContainersReadyCondition`.
pub(super) fn containers_ready(pod: &Pod, phase: Phase, containers: &Containers) -> ConditionState {
    if containers.is_empty() {
        return ConditionState::no("UnknownContainerStatuses");
    }
    let sidecars = view::init_containers(pod).iter().filter(|init| view::is_sidecar(init));
    let counted: Vec<&Container> = sidecars.chain(view::containers(pod)).collect();
    let named = |wrong: fn(Option<bool>) -> bool| -> Vec<&str> {
        let ready = |one: &&Container| containers.find(&one.name).map(|status| status.ready);
        let wrong = counted.iter().copied().filter(|one| wrong(ready(one)));
        wrong.map(|one| one.name.as_str()).collect()
    };
    let unknown = named(|ready| ready.is_none());
    let unready = named(|ready| ready == Some(false));
    match phase {
        Phase::Succeeded if unknown.is_empty() => return ConditionState::no("PodCompleted"),
        // Its containers may still be terminating.
        Phase::Failed => return ConditionState::no("PodFailed"),
        _ => {}
    }
    let mut problems = Vec::new();
    if !unknown.is_empty() {
        problems.push(format!("containers with unknown status: {}", name_list(&unknown)));
    }
    if !unready.is_empty() {
        problems.push(format!("containers with unready status: {}", name_list(&unready)));
    }
    if problems.is_empty() {
        return ConditionState::YES;
    }
    ConditionState {
        message: Some(problems.join(", ")),
        ..ConditionState::no("ContainersNotReady")
    }
}

/// Whether the containers are ready and every readiness gate is true; upstream's `GeneratePodReadyCondition`.
pub(super) fn ready(
    pod: &Pod,
    containers_ready: &ConditionState,
    foreign: &[PodCondition],
) -> ConditionState {
    if !containers_ready.holds {
        return containers_ready.clone();
    }
    let gates = view::spec(pod).and_then(|spec| spec.readiness_gates.as_deref());
    let problems: Vec<String> = gates
        .unwrap_or_default()
        .iter()
        .filter_map(|gate| {
            let name = &gate.condition_type;
            match foreign.iter().find(|condition| condition.type_ == *name) {
                None => Some(format!(
                    "corresponding condition of pod readiness gate {name:?} does not exist."
                )),
                Some(condition) if condition.status != TRUE => Some(format!(
                    "the status of pod readiness gate {name:?} is not \"True\", but {}",
                    condition.status
                )),
                Some(_) => None,
            }
        })
        .collect();
    if problems.is_empty() {
        return ConditionState::YES;
    }
    ConditionState {
        message: Some(problems.join(", ")),
        ..ConditionState::no("ReadinessGatesNotReady")
    }
}
