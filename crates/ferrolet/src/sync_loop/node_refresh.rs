//! Fetches the Node object before a pod is rejected for node labels: the stored object may be older than the binding
//! of the pod. Upstream's `generalFilter` fetches it while all pods wait; here only those pods do.

use std::collections::BTreeSet;
use std::time::Duration;

use allocation::Trigger;
use model::chain::Chain;
use model::ids::PodUid;
use node::NodeHandle;
use pods::decide::intake::IntakeEvent;
use tokio::task::JoinSet;
use tracing::{debug, error, warn};

use super::SyncLoop;
use crate::decide::node::as_registered;

/// The timeout of the request. After it the stored object counts.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Requests for the Node object, each with the pods that wait for it. Dropped with the loop.
#[derive(Debug, Default)]
pub(super) struct NodeRefresh(JoinSet<BTreeSet<PodUid>>);

impl NodeRefresh {
    fn begin(&mut self, pods: BTreeSet<PodUid>, node: NodeHandle) {
        self.0.spawn(async move {
            match tokio::time::timeout(TIMEOUT, node.refresh()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    warn!(error = %Chain(&error), "Cannot fetch the Node object, using the stored one");
                }
                Err(_) => warn!("Request for the Node object timed out, using the stored one"),
            }
            pods
        });
    }

    /// Waits until a request has ended; returns its pods, or none if they are unknown. For ever without a request.
    pub(super) async fn ended(&mut self) -> Option<BTreeSet<PodUid>> {
        match self.0.join_next().await {
            Some(Ok(pods)) => Some(pods),
            Some(Err(error)) => {
                error!(%error, "Request for the Node object was lost");
                None
            }
            None => std::future::pending().await,
        }
    }
}

impl SyncLoop {
    /// Updates the node that admission uses.
    pub(super) fn update_node(&mut self) {
        if let Some(features) = self.parts.runtime.features() {
            self.parts.allocation.chain.node.runtime = features;
        }
        if let Some(pressure) = &self.parts.pressure {
            self.parts.allocation.chain.pressure = *pressure.borrow();
        }
        if let Some(object) = self.parts.node.as_ref().and_then(NodeHandle::node) {
            let known = &mut self.parts.allocation.chain.node;
            *known = as_registered(std::mem::take(known), &object);
        }
    }

    /// Fetches the Node object for pods for which node labels are the sole obstacle.
    pub(super) fn refresh_node(&mut self, pods: BTreeSet<PodUid>) {
        let Some(node) = self.parts.node.clone().filter(|_| !pods.is_empty()) else { return };
        debug!(?pods, "Fetching the Node object before pods are rejected for its labels");
        self.node_refresh.begin(pods, node);
    }

    pub(super) async fn node_refreshed(&mut self, pods: Option<BTreeSet<PodUid>>) {
        self.feed(IntakeEvent::NodeRefreshed(pods)).await;
        self.reconcile_all(Trigger::PodsAdded).await;
    }
}
