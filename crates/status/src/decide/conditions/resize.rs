//! Whether the pod asks for resources that it has not.

use k8s_openapi::api::core::v1::{PodCondition, PodStatus};

use super::{Claim, RESIZE_IN_PROGRESS, RESIZE_PENDING, TRUE, find};
use crate::decide::input::{PendingResize, StatusInput};
use crate::decide::phase::Phase;

/// What a status that an earlier agent wrote tells of the resize of its pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToldResize {
    /// Why it was not given what it asked for, and for which version of its specification.
    pub pending: Option<(PendingResize, Option<i64>)>,
    /// Whether it had not yet what it was given.
    pub in_progress: bool,
    /// What was in the way of that.
    pub error: Option<String>,
}

/// Reads it from there.
pub fn told_resize(status: Option<&PodStatus>) -> ToldResize {
    let holding = |type_| find(status, type_).filter(|one| one.status == TRUE);
    let message = |one: &PodCondition| one.message.clone().unwrap_or_default();
    let pending = holding(RESIZE_PENDING).map(|one| {
        let infeasible = one.reason.as_deref() == Some("Infeasible");
        (PendingResize { infeasible, message: message(one) }, one.observed_generation)
    });
    let in_progress = holding(RESIZE_IN_PROGRESS);
    let failed = in_progress.filter(|one| one.reason.as_deref() == Some("Error"));
    ToldResize { pending, in_progress: in_progress.is_some(), error: failed.map(message) }
}

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
