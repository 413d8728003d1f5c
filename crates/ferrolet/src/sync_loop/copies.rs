//! Keeps pods running that are newer than the stored copies of their manifests.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::ids::{PodName, PodUid};
use model::observed::RuntimePodStatus;
use pods::decide::intake::{LivePod, OutdatedCopies, StoredCopy, outdated_copies};
use tracing::{info, warn};

use super::SyncLoop;

impl SyncLoop {
    /// Stored copies that are older than a running pod. Mostly there are no pods of copies.
    pub(super) fn outdated_copies(&self, live: &BTreeMap<PodUid, PodName>) -> OutdatedCopies {
        let copies = self.parts.sources.copies();
        if copies.is_empty() {
            return OutdatedCopies::default();
        }
        // A pod with a worker is running already, or being terminated.
        let has_none = |uid: &PodUid| !self.intake.has_worker(uid);
        let copies = copies.iter().filter(|(uid, _)| has_none(uid));
        let copies = copies.filter_map(|(uid, written)| {
            let pod = self.parts.sources.get(uid)?;
            Some(StoredCopy { pod, written: *written })
        });
        let copies: Vec<StoredCopy<'_>> = copies.collect();
        let live = live.iter().filter(|(uid, _)| has_none(uid));
        let live: Vec<(_, _, Option<Arc<RuntimePodStatus>>)> =
            live.map(|(uid, name)| (uid, name, self.parts.cache.get(uid).ok())).collect();
        let live =
            live.iter().map(|(uid, name, status)| LivePod { uid, name, status: status.as_deref() });
        outdated_copies(&copies, &live.collect::<Vec<_>>())
    }

    /// Logs the pods that are kept running since the last comparison, and the pods that no longer
    /// are.
    pub(super) fn log_copies(&self, before: &OutdatedCopies) {
        let now = self.intake.outdated();
        for uid in now.kept_running.difference(&before.kept_running) {
            let pod = self.parts.cache.live(uid).map(|name| name.to_string()).unwrap_or_default();
            warn!(pod, %uid, "Keeping running pod: it is newer than the stored copy of its manifest");
        }
        for uid in before.kept_running.difference(&now.kept_running) {
            info!(%uid, "Pod is no longer kept in place of a stored manifest copy");
        }
    }
}
