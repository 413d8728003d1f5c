//! Pods that the API server binds to this node.
//!
//! These pods have their defaults and uids, and are published unchanged. Nothing is published before the first list is
//! complete: otherwise consumers could take a pod of the API server for a deleted one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use model::ids::{PodName, PodUid};
use model::ports::cluster::{Change, Sink};
use model::ports::pod_api::PodApi;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{PodList, RefusalList, SourceWatch};
use crate::decide::api_pods::ApiPods;

/// Follows the pods of a node.
#[derive(Debug)]
pub struct ApiSource {
    node: String,
    api: Arc<dyn PodApi>,
    sink: ApiSink,
}

/// The pods received from the API server, and the channels they are published on.
#[derive(Debug)]
struct ApiSink {
    state: Arc<Mutex<ApiPods>>,
    /// Read by the merged sources.
    pods: watch::Sender<Option<PodList>>,
    /// Read by the merged sources.
    unread: watch::Sender<Arc<BTreeSet<PodUid>>>,
    /// Counts changes; read by the holders of [`ApiCopies`].
    changes: watch::Sender<u64>,
    /// Pods of the API server are never rejected here; the channel stays open for its readers.
    _refusals: watch::Sender<RefusalList>,
}

/// The latest copies of the pods in the API server, with their statuses. Clones share the same state.
#[derive(Debug, Clone)]
pub struct ApiCopies {
    /// Written only by the source. Never held across an await.
    state: Arc<Mutex<ApiPods>>,
    /// Closed when the source ends.
    changes: watch::Receiver<u64>,
}

/// Creates a source of the pods of a node, the channels it publishes on, and access to the latest copies.
pub fn api_source(node: String, api: Arc<dyn PodApi>) -> (ApiSource, SourceWatch, ApiCopies) {
    let state = Arc::<Mutex<ApiPods>>::default();
    let (pods, pods_receiver) = watch::channel(None);
    let (refusals, refusals_receiver) = watch::channel(RefusalList::default());
    let (unread, unread_receiver) = watch::channel(Arc::default());
    let (changes, changes_receiver) = watch::channel(0);
    let copies = ApiCopies { state: Arc::clone(&state), changes: changes_receiver };
    let sink = ApiSink { state, pods, unread, changes, _refusals: refusals };
    let watch = SourceWatch {
        pods: pods_receiver,
        refusals: refusals_receiver,
        unread: Some(unread_receiver),
        copies: None,
    };
    (ApiSource { node, api, sink }, watch, copies)
}

impl ApiSource {
    /// From now on, restart rules of containers are removed from published pods.
    pub fn drop_restart_rules(&self) {
        lock(&self.sink.state).drop_restart_rules();
    }

    /// Follows the pods until `stop` is cancelled.
    pub async fn run(self, stop: CancellationToken) {
        stop.run_until_cancelled(self.follow()).await;
    }

    /// Follows the pods for ever, beginning with a complete list.
    pub async fn follow(&self) {
        self.api.follow_pods_of(&self.node, &self.sink).await;
    }
}

impl Sink<Arc<Pod>, PodUid> for ApiSink {
    fn receive(&self, change: Change<Arc<Pod>, PodUid>) {
        let is_end = matches!(change, Change::Complete);
        let mut state = lock(&self.state);
        let update = state.receive(change);
        let (number, wanted) = (state.number(), update.wanted.then(|| state.wanted()));
        let unread = update.unread.then(|| state.unread().clone());
        drop(state);
        // Before the pods: a reader of the complete set must know which pods are missing in it.
        if let Some(unread) = unread {
            self.unread.send_replace(Arc::new(unread));
        }
        // Readers that compare with the responses to their writes must see the end of a list.
        if update.changed || is_end {
            self.changes.send_replace(number);
        }
        if let Some(wanted) = wanted {
            if is_end {
                info!(pods = wanted.len(), "Received all pods of this node from the API server");
            }
            self.pods.send_replace(Some(Arc::new(wanted)));
        }
    }
}

impl ApiCopies {
    /// The API server's copy of a pod; for a static pod, whose name is passed, its mirror pod.
    pub fn copy(&self, uid: &PodUid, fixed: Option<&PodName>) -> Option<Arc<Pod>> {
        lock(&self.state).copy(uid, fixed)
    }

    /// The mirror pods; `None` before the first complete list.
    pub fn mirrors(&self) -> Option<Vec<Arc<Pod>>> {
        let state = lock(&self.state);
        state.is_complete().then(|| state.mirrors())
    }

    /// The pods that changed after the change `number`, static pods by their own uids; and the number of the
    /// latest change.
    pub fn changed_since(&self, number: u64) -> (Vec<PodUid>, u64) {
        let state = lock(&self.state);
        (state.changed_since(number), state.number())
    }

    /// How many complete lists were received.
    pub fn listings(&self) -> u64 {
        lock(&self.state).listings()
    }

    /// A receiver of the number of changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }
}

/// A panic while the lock was held cannot leave a partial pod behind: entries are replaced whole.
fn lock(state: &Mutex<ApiPods>) -> MutexGuard<'_, ApiPods> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "api_tests.rs"]
mod tests;
