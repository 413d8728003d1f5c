//! Pods that the API server binds to this node.
//!
//! They come with their defaults and their uids, and are told as they are. Before all of them were told
//! once, nothing is: nobody may take a pod of the API for one that is gone.

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
    told: Told,
}

/// What was heard, and whom it is told.
#[derive(Debug)]
struct Told {
    state: Arc<Mutex<ApiPods>>,
    /// Read by the merged sources.
    pods: watch::Sender<Option<PodList>>,
    /// Read by the merged sources.
    unread: watch::Sender<Arc<BTreeSet<PodUid>>>,
    /// Counts changes; read by those who have [`ApiCopies`].
    changes: watch::Sender<u64>,
    /// Nothing of the API is refused here; kept open for who listens.
    _refusals: watch::Sender<RefusalList>,
}

/// The pods of the API server as they were heard last, with what it says of them. Clones show the same.
#[derive(Debug, Clone)]
pub struct ApiCopies {
    /// Written by the source alone. Never held across an await.
    state: Arc<Mutex<ApiPods>>,
    /// Closed when the source ends.
    changes: watch::Receiver<u64>,
}

/// A source of the pods of a node, what it tells, and what is known of them.
pub fn api_source(node: String, api: Arc<dyn PodApi>) -> (ApiSource, SourceWatch, ApiCopies) {
    let state = Arc::<Mutex<ApiPods>>::default();
    let (pods, told_pods) = watch::channel(None);
    let (refusals, told_refusals) = watch::channel(RefusalList::default());
    let (unread, told_unread) = watch::channel(Arc::default());
    let (changes, heard_changes) = watch::channel(0);
    let copies = ApiCopies { state: Arc::clone(&state), changes: heard_changes };
    let told = Told { state, pods, unread, changes, _refusals: refusals };
    let watch = SourceWatch {
        pods: told_pods,
        refusals: told_refusals,
        unread: Some(told_unread),
        copies: None,
    };
    (ApiSource { node, api, told }, watch, copies)
}

impl ApiSource {
    /// From now on, what containers say of their own restarts is not told.
    pub fn drop_restart_rules(&self) {
        lock(&self.told.state).drop_restart_rules();
    }

    /// Follows until told to stop.
    pub async fn run(self, stop: CancellationToken) {
        stop.run_until_cancelled(self.follow()).await;
    }

    /// Follows for ever, from the beginning: all pods are told anew.
    pub async fn follow(&self) {
        self.api.follow_pods_of(&self.node, &self.told).await;
    }
}

impl Sink<Arc<Pod>, PodUid> for Told {
    fn hear(&self, change: Change<Arc<Pod>, PodUid>) {
        let is_end = matches!(change, Change::Complete);
        let mut state = lock(&self.state);
        let heard = state.hear(change);
        let (number, wanted) = (state.number(), heard.wanted.then(|| state.wanted()));
        let unread = heard.unread.then(|| state.unread().clone());
        drop(state);
        // Before the pods: who has heard all of them must know who is not among them.
        if let Some(unread) = unread {
            self.unread.send_replace(Arc::new(unread));
        }
        // Who compares with what was answered must know that all was told.
        if heard.changed || is_end {
            self.changes.send_replace(number);
        }
        if let Some(wanted) = wanted {
            if is_end {
                info!(pods = wanted.len(), "the API server has told its pods of this node");
            }
            self.pods.send_replace(Some(Arc::new(wanted)));
        }
    }
}

impl ApiCopies {
    /// What the API server has of a pod; of a static pod, whose name is given, that is its mirror.
    pub fn copy(&self, uid: &PodUid, fixed: Option<&PodName>) -> Option<Arc<Pod>> {
        lock(&self.state).copy(uid, fixed)
    }

    /// The mirrors of static pods; `None` before all pods were told once.
    pub fn mirrors(&self) -> Option<Vec<Arc<Pod>>> {
        let state = lock(&self.state);
        state.is_complete().then(|| state.mirrors())
    }

    /// The pods that changed after that many changes, static pods by their own uids; and how many
    /// changes there were.
    pub fn changed_since(&self, number: u64) -> (Vec<PodUid>, u64) {
        let state = lock(&self.state);
        (state.changed_since(number), state.number())
    }

    /// How often all pods were told from the beginning, to the end.
    pub fn listings(&self) -> u64 {
        lock(&self.state).listings()
    }

    /// The number of changes so far, and to wait for the next.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }
}

/// A panic while the lock was held cannot leave half a pod behind: entries are replaced whole.
fn lock(state: &Mutex<ApiPods>) -> MutexGuard<'_, ApiPods> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "api_tests.rs"]
mod tests;
