//! The outside, as far as the node needs it.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::ports::addresses::Addresses;
use model::ports::clock::WallClock;
use model::ports::cluster::ApiError;
use model::ports::events::NodeEvents;
use model::ports::node_api::{CsiNodes, NodeApi, NodeLeases};
use model::ports::runtime::Runtime;
use tokio::time::timeout;

use crate::decide::health::Unwell;
use crate::metrics::Metrics;

/// A part of the agent that knows whether it is well. Asked often: the answer is at hand.
#[async_trait]
pub trait SelfCheck: Debug + Send + Sync {
    /// What is wrong, if anything.
    fn unwell(&self) -> Option<Unwell>;

    /// Waits until nothing is wrong.
    async fn well(&self);
}

/// The outside, as far as the node needs it.
#[derive(Debug, Clone)]
pub struct NodePorts {
    /// Where the node object is.
    pub api: Arc<dyn NodeApi>,
    /// Where its lease is.
    pub leases: Arc<dyn NodeLeases>,
    /// Where its CSI node is.
    pub csi_nodes: Arc<dyn CsiNodes>,
    /// The runtime whose state the node tells.
    pub runtime: Runtime,
    /// The addresses of the machine.
    pub addresses: Arc<dyn Addresses>,
    /// What is timed.
    pub metrics: Metrics,
    /// Where it is said what happened to the node.
    pub events: Arc<dyn NodeEvents>,
    /// The time of day.
    pub clock: Arc<dyn WallClock>,
    /// Parts of the agent without which the node is not ready.
    pub checks: Vec<Arc<dyn SelfCheck>>,
}

/// What is wrong with any of them.
pub(crate) fn unwell(checks: &[Arc<dyn SelfCheck>]) -> Vec<Unwell> {
    checks.iter().filter_map(|check| check.unwell()).collect()
}

/// Waits until nothing is wrong with any of them.
pub(crate) async fn all_well(checks: &[Arc<dyn SelfCheck>]) {
    for check in checks {
        check.well().await;
    }
}

/// A call that may take only so long.
pub(crate) async fn in_time<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    timeout(limit, call).await.unwrap_or(Err(ApiError::TooSlow(limit)))
}
