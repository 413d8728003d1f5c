//! Whether a pod has a sandbox in which containers can be started.

use model::observed::SandboxState;
use podspec::view;

use super::Claim;
use crate::decide::input::StatusInput;

/// Whether no new sandbox is needed; upstream's `GeneratePodReadyToStartContainersCondition`.
pub(super) fn ready_to_start(input: &StatusInput<'_>) -> Claim {
    let sandboxes = &input.observed.sandboxes;
    let ready = sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready).count();
    let usable = sandboxes.first().is_some_and(|newest| {
        newest.state == SandboxState::Ready
            && ready == 1
            && newest.host_network == view::host_network(input.pod)
            && (newest.host_network || !newest.ips.is_empty())
    });
    if usable { Claim::YES } else { Claim::NO }
}
