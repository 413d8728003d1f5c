//! The state of a resize in the status of a pod.

use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use model::admission::PendingResize;

/// The condition of a pod whose requested resources are not allocated.
pub const RESIZE_PENDING: &str = "PodResizePending";
/// The condition of a pod whose allocated resources are not applied.
pub const RESIZE_IN_PROGRESS: &str = "PodResizeInProgress";

/// The resize in a status, which an earlier agent may have written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportedResize {
    /// Why the requested resources were not allocated, and the generation of that request.
    pub pending: Option<(PendingResize, Option<i64>)>,
    /// Whether the allocated resources were not applied.
    pub in_progress: bool,
    /// The error that prevented that.
    pub error: Option<String>,
}

/// Reads the conditions of a status.
pub fn reported_resize(status: Option<&PodStatus>) -> ReportedResize {
    let conditions = || status?.conditions.as_deref();
    let conditions = conditions().unwrap_or_default();
    let holding = |type_: &str| {
        let found = conditions.iter().find(|condition| condition.type_ == type_);
        found.filter(|condition| condition.status == "True")
    };
    let message = |one: &PodCondition| one.message.clone().unwrap_or_default();
    let pending = holding(RESIZE_PENDING).map(|one| {
        let infeasible = one.reason.as_deref() == Some("Infeasible");
        (PendingResize { infeasible, message: message(one) }, one.observed_generation)
    });
    let in_progress = holding(RESIZE_IN_PROGRESS);
    let failed = in_progress.filter(|one| one.reason.as_deref() == Some("Error"));
    ReportedResize { pending, in_progress: in_progress.is_some(), error: failed.map(message) }
}
