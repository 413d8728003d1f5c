//! Whether all containers of a pod are restarted because of a container's exit.

use podspec::{restart, view};

use super::ConditionState;
use crate::decide::input::StatusInput;
use crate::decide::phase::Phase;
use crate::decide::restart_all::starts_over;

/// True from the matching exit until the last instance is gone; `None` for a pod without such a
/// rule. Upstream's `GenerateAllContainersRestartingCondition`.
pub(super) fn restarting_all(input: &StatusInput<'_>, phase: Phase) -> Option<ConditionState> {
    if !restart::may_restart_all(input.pod) {
        return None;
    }
    let claim = match phase {
        Phase::Succeeded => ConditionState::no("PodCompleted"),
        Phase::Failed => ConditionState::no("PodFailed"),
        Phase::Pending | Phase::Running if is_under_way(input) => ConditionState {
            reason: Some("RestartAllContainersStarted"),
            message: Some("container exited with restart policy rule".to_owned()),
            ..ConditionState::YES
        },
        Phase::Pending | Phase::Running => ConditionState::NO,
    };
    Some(claim)
}

fn is_under_way(input: &StatusInput<'_>) -> bool {
    let mut all = view::containers(input.pod).iter().chain(view::init_containers(input.pod));
    let any_left = all.any(|one| input.observed.latest(&one.name).is_some());
    any_left && starts_over(input)
}
