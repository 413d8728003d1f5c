//! Whether a resize of the pod is pending or in progress.

use super::ConditionState;
use crate::decide::input::StatusInput;
use crate::decide::phase::Phase;

/// The requested resources are not allocated. A terminal pod has no pending resize.
pub(super) fn pending(input: &StatusInput<'_>, phase: Phase) -> Option<ConditionState> {
    let pending = input.resizing.pending.filter(|_| !phase.is_terminal())?;
    let message = Some(pending.message.clone());
    Some(ConditionState { reason: Some(pending.reason()), message, ..ConditionState::YES })
}

/// The allocated resources are not applied yet.
pub(super) fn in_progress(input: &StatusInput<'_>, phase: Phase) -> Option<ConditionState> {
    if !input.resizing.in_progress || phase.is_terminal() {
        return None;
    }
    let error = input.resizing.error;
    let message = error.map(ToOwned::to_owned);
    Some(ConditionState { reason: error.map(|_| "Error"), message, ..ConditionState::YES })
}
