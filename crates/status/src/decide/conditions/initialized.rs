//! Whether the init containers of a pod have completed.

use k8s_openapi::api::core::v1::{Container, ContainerStatus};
use podspec::view;

use super::{ConditionState, INITIALIZED, holds, name_list};
use crate::decide::container_statuses::Containers;
use crate::decide::input::StatusInput;
use crate::decide::phase::Phase;

/// Whether init containers succeeded and sidecars have started; upstream's
/// `GeneratePodInitializedCondition`.
pub(super) fn initialized(
    input: &StatusInput<'_>,
    phase: Phase,
    containers: &Containers,
) -> ConditionState {
    let inits = view::init_containers(input.pod);
    if containers.is_empty() && !inits.is_empty() {
        return ConditionState::no("UnknownContainerStatuses");
    }
    let named = |wrong: fn(&Container, Option<&ContainerStatus>) -> bool| -> Vec<&str> {
        let wrong = inits.iter().filter(|init| wrong(init, containers.find(&init.name)));
        wrong.map(|init| init.name.as_str()).collect()
    };
    let unknown = named(|_, status| status.is_none());
    let incomplete = named(|init, status| status.is_some_and(|status| !is_done(init, status)));
    if phase == Phase::Succeeded && unknown.is_empty() {
        return ConditionState { reason: Some("PodCompleted"), ..ConditionState::YES };
    }
    // Init containers that run again, after a reboot or while regular containers run, do not reset
    // it.
    if containers.regular.iter().any(has_started) || holds(input.base(), INITIALIZED) {
        return ConditionState::YES;
    }
    let mut problems = Vec::new();
    if !unknown.is_empty() {
        problems.push(format!("containers with unknown status: {}", name_list(&unknown)));
    }
    if !incomplete.is_empty() {
        problems.push(format!("containers with incomplete status: {}", name_list(&incomplete)));
    }
    if problems.is_empty() {
        return ConditionState::YES;
    }
    ConditionState {
        message: Some(problems.join(", ")),
        ..ConditionState::no("ContainersNotInitialized")
    }
}

fn is_done(init: &Container, status: &ContainerStatus) -> bool {
    if view::is_sidecar(init) { status.started == Some(true) } else { status.ready }
}

fn has_started(status: &ContainerStatus) -> bool {
    let state = status.state.as_ref();
    state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
}
