//! Manifests that are not as they should be, told to people beside the pods.

use std::sync::Arc;

use model::ids::{PodName, PodUid};
use tokio::sync::watch;

/// Why a manifest does not have its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The file, directory or URL.
    pub manifest: String,
    /// What is wrong with it.
    pub message: String,
    /// The pod that is meant, as far as that is known.
    pub pod: Option<PodName>,
    /// The uid of a pod that could run but for another one.
    pub uid: Option<PodUid>,
    /// Whether an earlier version of the manifest stays in force.
    pub last_good_stays: bool,
}

/// All that is wrong with the manifests of a source, in its own order.
pub type RefusalList = Arc<Vec<Refusal>>;

/// The latest list of a source.
pub type RefusalWatch = watch::Receiver<RefusalList>;

/// Tells a list if it is another one than before.
pub(super) fn tell(refusals: &watch::Sender<RefusalList>, now: Vec<Refusal>) {
    refusals.send_if_modified(|told| {
        let is_news = **told != now;
        if is_news {
            *told = Arc::new(now);
        }
        is_news
    });
}
