//! Invalid manifests, reported to operators.

use std::sync::Arc;

use model::ids::{PodName, PodUid};
use tokio::sync::watch;

/// Why a manifest is not applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The file, directory or URL.
    pub manifest: String,
    /// The problem.
    pub message: String,
    /// The pod of the manifest, if it is known.
    pub pod: Option<PodName>,
    /// The uid of a pod that another pod keeps from running.
    pub uid: Option<PodUid>,
    /// Whether the last good version of the manifest stays in use.
    pub last_good_stays: bool,
}

/// All problems of the manifests of a source, in its own order.
pub type RefusalList = Arc<Vec<Refusal>>;

/// The latest list of a source.
pub type RefusalWatch = watch::Receiver<RefusalList>;

/// Publishes a list if it differs from the previous one.
pub(super) fn publish(refusals: &watch::Sender<RefusalList>, now: Vec<Refusal>) {
    refusals.send_if_modified(|published| {
        let changed = **published != now;
        if changed {
            *published = Arc::new(now);
        }
        changed
    });
}
