//! Whether a pod has a sandbox in which containers can start.

use podspec::{SandboxFit, sandbox_fit};

use super::ConditionState;
use crate::decide::input::StatusInput;

/// Whether no new sandbox is needed; upstream's `GeneratePodReadyToStartContainersCondition`, and its
/// `OnPodSandboxReady`: the condition is published while images are still being pulled.
pub(super) fn ready_to_start(input: &StatusInput<'_>) -> ConditionState {
    if input.has_new_sandbox {
        return ConditionState::YES;
    }
    match sandbox_fit(input.pod, input.observed) {
        SandboxFit::Usable(_) => ConditionState::YES,
        _ => ConditionState::NO,
    }
}
