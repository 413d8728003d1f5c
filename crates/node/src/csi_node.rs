//! Maintains the `CSINode` object of the node.

use std::sync::Arc;
use std::time::Duration;

use model::chain::Chain;
use model::log_throttle::LogThrottle;
use model::ports::cluster::ApiError;
use model::ports::node_api::CsiNodes;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::decide::csi_node::{CsiNodeWrite, csi_node};
use crate::decide::pace::{backoff, not_before};
use crate::decide::settings::Settings;
use crate::own_node::OwnNode;
use crate::ports::{NodePorts, in_time};

/// Creates the CSI node once the node exists, and again for each node object of a new uid. Nothing waits for it:
/// without drivers, its content is constant.
#[derive(Debug)]
pub struct CsiNodeTask {
    node: String,
    api: Arc<dyn CsiNodes>,
    own: OwnNode,
    /// The timeout of a call.
    limit: Duration,
    throttle: LogThrottle,
}

impl CsiNodeTask {
    pub(crate) fn new(settings: &Settings, ports: &NodePorts, own: OwnNode) -> Self {
        Self {
            node: settings.own.name.clone(),
            api: Arc::clone(&ports.csi_nodes),
            own,
            limit: settings.answer_time(),
            throttle: LogThrottle::default(),
        }
    }

    /// Maintains the CSI node until `stop` is cancelled.
    pub async fn run(mut self, stop: CancellationToken) {
        // Biased: `stop` is cancelled once.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.keep() => {}
        }
    }

    async fn keep(&mut self) {
        let mut done: Option<String> = None;
        loop {
            let is_new = |uid: &&String| Some(*uid) != done.as_ref();
            let uid = self.own.wait_for(|own| own.uid().filter(is_new).cloned()).await;
            if self.ensure(&uid).await {
                done = Some(uid);
            }
        }
    }

    /// Makes the CSI node belong to the node with this uid. Gives up when the node's uid changes.
    async fn ensure(&mut self, uid: &str) -> bool {
        let mut failures = 0;
        while self.own.uid().as_deref() == Some(uid) {
            let Err(error) = self.try_ensure(uid).await else {
                if let Some(after) = self.throttle.recovered(Instant::now().into_std()) {
                    info!(?after, "CSINode initialized");
                }
                return true;
            };
            failures += 1;
            if self.throttle.failed(Instant::now().into_std()) {
                warn!(node = self.node, error = %Chain(&error), "Failed to initialize CSINode, retrying");
            }
            sleep(not_before(backoff(failures), &error)).await;
        }
        false
    }

    async fn try_ensure(&self, uid: &str) -> Result<(), ApiError> {
        let found = in_time(self.limit, self.api.csi_node(&self.node)).await?;
        match csi_node(found, &self.node, uid) {
            None => Ok(()),
            Some(CsiNodeWrite::Create(node)) => {
                in_time(self.limit, self.api.create_csi_node(&node)).await.map(drop)
            }
            Some(CsiNodeWrite::Update(node)) => {
                in_time(self.limit, self.api.update_csi_node(&node)).await.map(drop)
            }
        }
    }
}
