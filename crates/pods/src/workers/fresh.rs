//! Statuses that are new enough to act on.

use std::sync::Arc;

use model::ids::PodUid;
use model::observed::PodStatus;
use model::ports::runtime::RuntimeError;

use super::{LastJob, Statuses, WorkerParts};
use crate::decide::first_look;

/// The status that a job acts on. For the first one of a pod that is what is known, if it can be relied on.
pub(super) async fn status(
    parts: &WorkerParts,
    uid: &PodUid,
    last: Option<LastJob>,
) -> Result<Arc<PodStatus>, RuntimeError> {
    if let Some(last) = last {
        return status_after(&*parts.statuses, uid, last).await;
    }
    let known = status_after(&*parts.statuses, uid, LastJob::default()).await?;
    if first_look::holds(&known) {
        return Ok(known);
    }
    let now = LastJob { ended: parts.stamps.next(), ..LastJob::default() };
    status_after(&*parts.statuses, uid, now).await
}

/// A status observed after the last job. Asks for a look only when none is known or under way, so
/// that a quiet node is not looked at more often than it is anyway.
pub(super) async fn status_after(
    statuses: &dyn Statuses,
    uid: &PodUid,
    last: LastJob,
) -> Result<Arc<PodStatus>, RuntimeError> {
    let mut wait = statuses.newer_than(uid, last.ended);
    if last.look_asked {
        return wait.await;
    }
    // Biased: the status first, because asking for a look costs calls.
    tokio::select! {
        biased;
        status = &mut wait => return status,
        () = std::future::ready(()) => {}
    }
    statuses.look_at(uid);
    wait.await
}
