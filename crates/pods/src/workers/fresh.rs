//! Statuses that are recent enough to act on.

use std::sync::Arc;

use model::ids::PodUid;
use model::observed::RuntimePodStatus;
use model::ports::runtime::RuntimeError;

use super::{LastJob, PodStatuses, WorkerParts};
use crate::decide::first_status;

/// The status that a job acts on. The first job of a pod uses a known status, if that is reliable.
pub(super) async fn status(
    parts: &WorkerParts,
    uid: &PodUid,
    last: Option<LastJob>,
) -> Result<Arc<RuntimePodStatus>, RuntimeError> {
    if let Some(last) = last {
        return status_after(&*parts.statuses, uid, last).await;
    }
    let known = status_after(&*parts.statuses, uid, LastJob::default()).await?;
    if first_status::is_reliable(&known) {
        return Ok(known);
    }
    let now = LastJob { ended: parts.seq.next(), ..LastJob::default() };
    status_after(&*parts.statuses, uid, now).await
}

/// A status observed after the last job. Requests an observation only if none is known or in progress, so
/// that an idle node is not observed more often than necessary.
pub(super) async fn status_after(
    statuses: &dyn PodStatuses,
    uid: &PodUid,
    last: LastJob,
) -> Result<Arc<RuntimePodStatus>, RuntimeError> {
    let mut wait = statuses.newer_than(uid, last.ended);
    if last.look_asked {
        return wait.await;
    }
    // Biased: the status first, because requesting an observation costs runtime calls.
    tokio::select! {
        biased;
        status = &mut wait => return status,
        () = std::future::ready(()) => {}
    }
    statuses.look_at(uid);
    wait.await
}
