//! Whether all containers of a pod are being restarted because of how one of them ended.

use model::observed::ContainerState;
use podspec::{restart, view};

use super::{Claim, RESTARTING_ALL, holds};
use crate::decide::input::StatusInput;
use crate::decide::phase::Phase;

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
    let containers = || view::containers(input.pod).iter().chain(view::init_containers(input.pod));
    let any_left = containers().any(|one| input.observed.latest(&one.name).is_some());
    let asked_for = containers().any(|one| {
        let exited = input.observed.latest(&one.name);
        exited.is_some_and(|latest| {
            latest.state == ContainerState::Exited
                && restart::restarts_all_after(one, latest.exit_code)
        })
    });
    any_left && (asked_for || holds(input.base(), RESTARTING_ALL))
}
