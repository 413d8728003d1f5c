//! How far a resize is, as the status of a pod reports it.

use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use model::admission::PendingResize;

/// The condition of a pod that was not allocated what it requests.
pub const RESIZE_PENDING: &str = "PodResizePending";
/// The condition of a pod that does not yet have what it was allocated.
pub const RESIZE_IN_PROGRESS: &str = "PodResizeInProgress";

/// The resize that a status reports, which an earlier agent may have written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportedResize {
    /// Why the pod was not allocated what it requested, and the generation of that request.
    pub pending: Option<(PendingResize, Option<i64>)>,
    /// Whether it did not yet have what it was allocated.
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
