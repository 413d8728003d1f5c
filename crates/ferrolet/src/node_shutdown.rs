//! What a shutdown of the machine does to the node and its pods.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use model::ids::PodUid;
use model::pod_failure::PodFailure;
use node::NodeHandle;
use pods::WorkerStates;
use pods::source::api::ApiCopies;
use podspec::view;
use shutdown::decide::PlannedPod;
use shutdown::{MESSAGE, REASON, ShutdownPods};
use status::store::StatusReader;
use tokio::time::timeout;
use tracing::warn;
use volumes::VolumeManager;

use crate::sync_loop::{LoopHandle, Termination};

/// How long the agent may take to learn which pods there are: it may have started during the shutdown.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a phase waits for the API server to get the ends of its pods. It may be away.
const SENDING: Duration = Duration::from_secs(5);

/// The pods of the node at its shutdown.
#[derive(Debug)]
pub(crate) struct PodsAtShutdown {
    /// Terminates pods, and knows the active ones.
    pub(crate) sync_loop: LoopHandle,
    /// The node object; none outside a cluster.
    pub(crate) node: Option<NodeHandle>,
    /// Unmounts their volumes.
    pub(crate) volumes: VolumeManager,
    /// Whether anything of a pod runs.
    pub(crate) states: WorkerStates,
    /// The published statuses.
    pub(crate) statuses: StatusReader,
    /// The pods as the API server has them; none outside a cluster.
    pub(crate) copies: Option<ApiCopies>,
}

impl PodsAtShutdown {
    /// Waits until nothing of a pod runs.
    async fn terminated(&self, uid: &PodUid) {
        let mut changes = self.statuses.subscribe();
        while self.states.get(uid).is_some_and(|state| !state.terminated) {
            // The agent stops.
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits until the API server has the end of a pod.
    async fn sent(&self, uid: &PodUid) {
        let Some(copies) = &self.copies else { return };
        let mut changes = copies.changes();
        let fixed = self.statuses.static_pod(uid);
        while let Some(copy) = copies.copy(uid, fixed.as_ref()) {
            if view::is_terminal(&copy) || changes.changed().await.is_err() {
                return;
            }
        }
    }
}

#[async_trait]
impl ShutdownPods for PodsAtShutdown {
    async fn set_shutting_down(&self, shuts_down: bool) {
        self.sync_loop.set_shutting_down(shuts_down);
        if let Some(node) = &self.node {
            node.set_shutting_down(shuts_down);
        }
    }

    async fn active(&self) -> Vec<Arc<Pod>> {
        timeout(PATIENCE, self.sync_loop.active_pods()).await.unwrap_or_else(|_| {
            warn!("Pods of the node are not known yet, the shutdown does not wait for them");
            Vec::new()
        })
    }

    async fn terminate(&self, pod: &PlannedPod) {
        let uid = view::uid(&pod.pod);
        let failure = PodFailure {
            reason: REASON,
            message: MESSAGE.to_owned(),
            disruption: Some(MESSAGE.into()),
        };
        let termination = Termination { uid, failure, grace: pod.grace };
        if !self.sync_loop.terminate(termination).await {
            warn!(pod = %view::pod_name(&pod.pod), "Shutdown manager failed killing pod");
        }
    }

    async fn settled(&self, pods: &[Arc<Pod>]) {
        let settled = pods.iter().map(async |pod| {
            let (uid, name) = (view::uid(pod), view::pod_name(pod));
            self.terminated(&uid).await;
            if let Err(error) = self.volumes.release(&uid, Some(name.clone())).await {
                warn!(pod = %name, %error, "Volumes are not unmounted before the shutdown");
            }
            if timeout(SENDING, self.sent(&uid)).await.is_err() {
                warn!(pod = %name, "Status was not sent before the shutdown");
            }
        });
        join_all(settled).await;
    }
}
