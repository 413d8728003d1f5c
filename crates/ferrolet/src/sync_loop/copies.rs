//! Keeps pods running that are newer than the stored copies of their manifests.

use std::sync::Arc;

use model::ids::PodUid;
use model::observed::PodStatus;
use tracing::{info, warn};

use super::SyncLoop;
use pods::decide::intake::{LivePod, OutdatedCopies, StoredCopy, outdated_copies};

impl SyncLoop {
    /// Which stored copies are older than what runs now. Mostly there are no pods of copies.
    fn outdated_now(&self) -> OutdatedCopies {
        let copies = self.parts.sources.copies();
        if copies.is_empty() {
            return OutdatedCopies::default();
        }
        // One that has a worker is running already, or being stopped.
        let has_none = |uid: &PodUid| !self.working.contains(uid);
        let copies = copies.iter().filter(|(uid, _)| has_none(uid));
        let copies = copies.filter_map(|(uid, written)| {
            let pod = self.parts.sources.get(uid)?;
            Some(StoredCopy { pod, written: *written })
        });
        let copies: Vec<StoredCopy<'_>> = copies.collect();
        let live = self.parts.cache.all_live();
        let live = live.iter().filter(|(uid, _)| has_none(uid));
        let live: Vec<(_, _, Option<Arc<PodStatus>>)> =
            live.map(|(uid, name)| (uid, name, self.parts.cache.get(uid).ok())).collect();
        let live =
            live.iter().map(|(uid, name, status)| LivePod { uid, name, status: status.as_deref() });
        outdated_copies(&copies, &live.collect::<Vec<_>>())
    }

    /// Compares the stored copies with what runs. Whether anything is different since the last time.
    pub(super) fn compare_copies(&mut self) -> bool {
        let now = self.outdated_now();
        if now == self.outdated {
            return false;
        }
        for uid in now.kept_running.difference(&self.outdated.kept_running) {
            let pod = self.parts.cache.live(uid).map(|name| name.to_string()).unwrap_or_default();
            warn!(pod, %uid, "Keeping running pod: it is newer than the stored copy of its manifest");
        }
        for uid in self.outdated.kept_running.difference(&now.kept_running) {
            info!(%uid, "Pod is no longer kept in place of a stored manifest copy");
        }
        self.outdated = now;
        true
    }

    /// Whether a pod runs on because it is newer than the stored copy of its manifest.
    pub(super) fn is_spared(&self, uid: &PodUid) -> bool {
        self.outdated_now().kept_running.contains(uid)
    }
}
