//! Whether all containers of a pod are being restarted because of how one of them ended.

use podspec::{restart, view};

use super::Claim;
use crate::decide::input::StatusInput;
use crate::decide::phase::Phase;
use crate::decide::starting_over::starts_over;

/// From the exit that asks for it until the last instance is gone; nothing for a pod without such a
/// rule. Upstream's `GenerateAllContainersRestartingCondition`.
pub(super) fn restarting_all(input: &StatusInput<'_>, phase: Phase) -> Option<Claim> {
    if !restart::may_restart_all(input.pod) {
        return None;
    }
    let claim = match phase {
        Phase::Succeeded => Claim::no("PodCompleted"),
        Phase::Failed => Claim::no("PodFailed"),
        Phase::Pending | Phase::Running if is_under_way(input) => Claim {
            reason: Some("RestartAllContainersStarted"),
            message: Some("container exited with restart policy rule".to_owned()),
            ..Claim::YES
        },
        Phase::Pending | Phase::Running => Claim::NO,
    };
    Some(claim)
}

fn is_under_way(input: &StatusInput<'_>) -> bool {
    let mut all = view::containers(input.pod).iter().chain(view::init_containers(input.pod));
    let any_left = all.any(|one| input.observed.latest(&one.name).is_some());
    any_left && starts_over(input)
}
