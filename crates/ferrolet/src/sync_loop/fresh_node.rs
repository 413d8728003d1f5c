//! A second look at the node's object before a pod is refused for its labels: what was told of the object may
//! be late, and who bound the pod knew more. Upstream's `generalFilter` asks while everybody waits; here only
//! those pods do.

use std::collections::BTreeSet;
use std::time::Duration;

use allocation::Trigger;
use model::chain::Chain;
use model::ids::PodUid;
use node::NodeHandle;
use tokio::task::JoinSet;
use tracing::{debug, error, warn};

use super::SyncLoop;
use crate::decide::node::as_registered;

/// How long the API server may take to answer. Then what was told of the node counts.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pods that wait for a second look.
#[derive(Debug, Default)]
pub(super) struct SecondLooks {
    /// They get no worker, and are not refused.
    waiting: BTreeSet<PodUid>,
    /// Those that had theirs, and are to be decided about.
    had: BTreeSet<PodUid>,
    /// Each for these pods. Dropped with the loop.
    looks: JoinSet<BTreeSet<PodUid>>,
}

/// That a look is over, with the pods that waited for it; or that nobody knows for whom it was.
#[derive(Debug)]
pub(super) struct Looked(Option<BTreeSet<PodUid>>);

impl SecondLooks {
    /// Whether a pod waits for one.
    pub(super) fn is_waiting(&self, uid: &PodUid) -> bool {
        self.waiting.contains(uid)
    }

    /// A pod went, or came anew.
    pub(super) fn forget(&mut self, uid: &PodUid) {
        self.waiting.remove(uid);
        self.had.remove(uid);
    }

    /// Whether a pod that is decided about had its own.
    pub(super) fn take(&mut self, uid: &PodUid) -> bool {
        self.had.remove(uid)
    }

    /// Begins one for these pods.
    fn begin(&mut self, pods: BTreeSet<PodUid>, node: NodeHandle) {
        self.waiting.extend(pods.iter().cloned());
        self.looks.spawn(async move {
            match tokio::time::timeout(PATIENCE, node.ask()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    warn!(error = %Chain(&error), "cannot ask for the node's object; what was told of it counts");
                }
                Err(_) => warn!("nobody tells the node's object; what was told of it counts"),
            }
            pods
        });
    }

    /// Waits for the end of one; for ever while there is none.
    pub(super) async fn looked(&mut self) -> Looked {
        match self.looks.join_next().await {
            Some(Ok(pods)) => Looked(Some(pods)),
            Some(Err(error)) => {
                error!(%error, "who asked for the node's object is gone");
                Looked(None)
            }
            None => std::future::pending().await,
        }
    }

    /// One is over: those who still wait for it, and had theirs now.
    fn end(&mut self, Looked(pods): Looked) -> Vec<PodUid> {
        let pods = pods.unwrap_or_else(|| self.waiting.clone());
        let over: Vec<PodUid> = pods.into_iter().filter(|uid| self.waiting.remove(uid)).collect();
        self.had.extend(over.iter().cloned());
        over
    }
}

impl SyncLoop {
    /// What is known of the node by now counts.
    pub(super) fn meet_node(&mut self) {
        if let Some(features) = self.parts.runtime.features() {
            self.parts.allocation.chain.node.runtime = features;
        }
        if let Some(object) = self.parts.node.as_ref().and_then(NodeHandle::node) {
            let known = &mut self.parts.allocation.chain.node;
            *known = as_registered(std::mem::take(known), &object);
        }
    }

    /// Has the node's object looked at for pods that nothing else is in the way of.
    pub(super) fn look_at_node(&mut self, pods: BTreeSet<PodUid>) {
        let Some(node) = self.parts.node.clone().filter(|_| !pods.is_empty()) else { return };
        debug!(?pods, "asking for the node's object before pods are refused for its labels");
        self.arrivals.second_looks.begin(pods, node);
    }

    /// The node's object was looked at, or could not be: who waited for that is decided about.
    pub(super) async fn node_looked_at(&mut self, looked: Looked) {
        let over = self.arrivals.second_looks.end(looked);
        self.arrivals.waiting.extend(over);
        self.look_after_all(Trigger::PodsAdded).await;
    }
}
