//! Whether a pod has a sandbox in which containers can be started.

use podspec::{SandboxFit, sandbox_fit};

use super::Claim;
use crate::decide::input::StatusInput;

/// Whether no new sandbox is needed; upstream's `GeneratePodReadyToStartContainersCondition`, and its
/// `OnPodSandboxReady`: who waits for it hears of it while images are still being pulled.
pub(super) fn ready_to_start(input: &StatusInput<'_>) -> Claim {
    if input.has_new_sandbox {
        return Claim::YES;
    }
    match sandbox_fit(input.pod, input.observed) {
        SandboxFit::Usable(_) => Claim::YES,
        _ => Claim::NO,
    }
}
