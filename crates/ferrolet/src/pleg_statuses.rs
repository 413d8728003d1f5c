//! Statuses of pods from the PLEG's cache, for the pod workers.

use std::sync::Arc;

use async_trait::async_trait;
use model::ids::PodUid;
use model::observed::RuntimePodStatus;
use model::ports::runtime::RuntimeError;
use model::seq::Seq;
use pods::workers::PodStatuses;

use crate::runtime_state::Ready;

/// The cache, and requests for a new status.
#[derive(Debug)]
pub(crate) struct PlegStatuses {
    pub(crate) cache: pleg::cache::Reader,
    pub(crate) requests: pleg::DirtySet<()>,
    /// No pod syncs while the runtime reports that it is not ready.
    pub(crate) ready: Ready,
}

#[async_trait]
impl PodStatuses for PlegStatuses {
    async fn newer_than(
        &self,
        uid: &PodUid,
        after: Seq,
    ) -> Result<Arc<RuntimePodStatus>, RuntimeError> {
        self.ready.wait().await;
        self.cache.newer_than(uid, after).await
    }

    fn known_since(
        &self,
        uid: &PodUid,
        after: Seq,
    ) -> Option<Result<Arc<RuntimePodStatus>, RuntimeError>> {
        self.ready.is_ready().then(|| self.cache.known_since(uid, after))?
    }

    fn look_at(&self, uid: &PodUid) {
        self.requests.mark(uid, []);
    }
}
