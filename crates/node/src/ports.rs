//! The ports of the node.

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

use crate::decide::health::UnhealthyPart;
use crate::metrics::Metrics;

/// A part of the agent that knows its health. Called often: the result must be available without waiting.
#[async_trait]
pub trait SelfCheck: Debug + Send + Sync {
    /// The problem, if any.
    fn unwell(&self) -> Option<UnhealthyPart>;

    /// Waits until there is no problem.
    async fn well(&self);
}

/// The ports of the node.
#[derive(Debug, Clone)]
pub struct NodePorts {
    /// Access to the node object.
    pub api: Arc<dyn NodeApi>,
    /// Access to the lease.
    pub leases: Arc<dyn NodeLeases>,
    /// Access to the CSI node.
    pub csi_nodes: Arc<dyn CsiNodes>,
    /// The container runtime.
    pub runtime: Runtime,
    /// The addresses of the machine.
    pub addresses: Arc<dyn Addresses>,
    /// Metrics.
    pub metrics: Metrics,
    /// Receives events of the node.
    pub events: Arc<dyn NodeEvents>,
    /// The wall clock.
    pub clock: Arc<dyn WallClock>,
    /// Parts of the agent that must be healthy for a ready node.
    pub checks: Vec<Arc<dyn SelfCheck>>,
}

/// The problems of all parts.
pub(crate) fn unwell(checks: &[Arc<dyn SelfCheck>]) -> Vec<UnhealthyPart> {
    checks.iter().filter_map(|check| check.unwell()).collect()
}

/// Waits until all parts are healthy.
pub(crate) async fn all_well(checks: &[Arc<dyn SelfCheck>]) {
    for check in checks {
        check.well().await;
    }
}

/// Runs a call with a timeout.
pub(crate) async fn in_time<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    timeout(limit, call).await.unwrap_or(Err(ApiError::TooSlow(limit)))
}
