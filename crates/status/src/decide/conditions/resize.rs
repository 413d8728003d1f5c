//! Whether the pod asks for resources that it has not.

use super::Claim;
use crate::decide::input::StatusInput;
use crate::decide::phase::Phase;

/// That it was not given them. A pod that is over waits for nothing.
pub(super) fn pending(input: &StatusInput<'_>, phase: Phase) -> Option<Claim> {
    let pending = input.resizing.pending.filter(|_| !phase.is_terminal())?;
    let message = Some(pending.message.clone());
    Some(Claim { reason: Some(pending.reason()), message, ..Claim::YES })
}

/// That it was given them and has them not.
pub(super) fn in_progress(input: &StatusInput<'_>, phase: Phase) -> Option<Claim> {
    if !input.resizing.in_progress || phase.is_terminal() {
        return None;
    }
    let error = input.resizing.error;
    let message = error.map(ToOwned::to_owned);
    Some(Claim { reason: error.map(|_| "Error"), message, ..Claim::YES })
}
