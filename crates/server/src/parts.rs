//! The dependencies of the server: narrow views of the agent.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use journal::{Query, SearchResult};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use model::ids::{ContainerId, PodUid};
use model::ports::clock::WallClock;
use model::ports::logs::ContainerLogs;
use model::probe::ProbeReport;
use model::program::{HealthChecks, Verbosity};
use tokio::sync::watch;

use crate::event_book::EventBook;
use crate::streaming::Streams;
use crate::wire::{EvictPlan, GcLine, GcPlan, RefusedManifest, Version, WaitingVolume};

/// A pod and its status.
#[derive(Debug, Clone)]
pub struct PodAndStatus {
    /// The pod as received from its source.
    pub pod: Arc<Pod>,
    /// Its status, which overrides the one received with the pod.
    pub status: Option<Arc<PodStatus>>,
}

impl PodAndStatus {
    /// The pod with its status filled in.
    pub fn joined(&self) -> Pod {
        let mut pod = Pod::clone(&self.pod);
        if let Some(status) = &self.status {
            pod.status = Some(PodStatus::clone(status));
        }
        pod
    }
}

impl PartialEq for PodAndStatus {
    fn eq(&self, other: &Self) -> bool {
        // Unchanged values are mostly the same object, which is a cheap check.
        let same_pod = Arc::ptr_eq(&self.pod, &other.pod) || self.pod == other.pod;
        let same_status = || match (&self.status, &other.status) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one == other,
            (one, other) => one.is_none() && other.is_none(),
        };
        same_pod && same_status()
    }
}

/// The pods of the node.
pub trait PodView: Debug + Send + Sync {
    /// All pods.
    fn pods(&self) -> Vec<PodAndStatus>;

    /// The volumes that a pod waits for.
    fn waiting_volumes(&self, pod: &PodUid) -> Vec<WaitingVolume> {
        let _ = pod;
        Vec::new()
    }

    /// The state of a pod's probes.
    fn probes(&self, pod: &PodUid) -> Vec<ProbeReport> {
        let _ = pod;
        Vec::new()
    }

    /// Manifests that are refused.
    fn refused(&self) -> Vec<RefusedManifest>;

    /// A number that changes with every other value of this view. Its sender is dropped when the agent stops.
    fn changes(&self) -> watch::Receiver<u64>;
}

/// The paths of logs.
pub trait LogPaths: Debug + Send + Sync {
    /// The log path of a container instance, by its runtime id.
    fn log_path(&self, pod: &PodUid, container: &ContainerId) -> Option<PathBuf>;
}

/// The agent's metrics.
pub trait MetricsText: Debug + Send + Sync {
    /// All metrics in the text format of Prometheus.
    fn text(&self) -> String;
}

/// The record of removals.
#[async_trait]
pub trait Removals: Debug + Send + Sync {
    /// The newest matching entries; the error says why they are unknown.
    async fn why(&self, query: Query, limit: usize) -> Result<SearchResult, String>;

    /// The newest matching entries, including incidents: kills, restarts and rejections.
    async fn history(&self, query: Query, limit: usize) -> Result<SearchResult, String>;
}

/// Garbage collection.
#[async_trait]
pub trait Collector: Debug + Send + Sync {
    /// What the next pass would remove and keep. Changes nothing.
    async fn plan(&self) -> GcPlan;

    /// Makes a pass now and streams its steps. The pass continues without a reader.
    async fn run(&self) -> BoxStream<'static, GcLine>;
}

/// The eviction manager.
#[async_trait]
pub trait EvictionView: Debug + Send + Sync {
    /// The signals now, and which pods would be evicted. Changes nothing.
    async fn plan(&self) -> EvictPlan;
}

/// The logs of containers.
#[derive(Debug, Clone)]
pub struct LogParts {
    /// The pods.
    pub pods: Arc<dyn PodView>,
    /// The paths of their logs.
    pub log_paths: Arc<dyn LogPaths>,
    /// Reads logs.
    pub logs: Arc<dyn ContainerLogs>,
    /// The wall clock.
    pub clock: Arc<dyn WallClock>,
}

/// The dependencies of all responses.
#[derive(Debug)]
pub struct Parts {
    /// The pods.
    pub pods: Arc<dyn PodView>,
    /// Their last events.
    pub events: Arc<EventBook>,
    /// The paths of their logs.
    pub log_paths: Arc<dyn LogPaths>,
    /// Reads logs.
    pub logs: Arc<dyn ContainerLogs>,
    /// The health of the agent.
    pub health: Arc<dyn HealthChecks>,
    /// The agent's metrics.
    pub metrics: Arc<dyn MetricsText>,
    /// The record of removals.
    pub removals: Arc<dyn Removals>,
    /// Plans and runs garbage collection.
    pub collector: Arc<dyn Collector>,
    /// Plans evictions.
    pub eviction: Arc<dyn EvictionView>,
    /// Streams into containers; `None` without a runtime.
    pub streams: Option<Arc<Streams>>,
    /// The log verbosity.
    pub verbosity: Arc<dyn Verbosity>,
    /// The wall clock, for relative times in requests.
    pub clock: Arc<dyn WallClock>,
    /// The version of the agent.
    pub version: Version,
}

impl Parts {
    /// The logs of containers.
    pub(crate) fn log_parts(&self) -> LogParts {
        LogParts {
            pods: Arc::clone(&self.pods),
            log_paths: Arc::clone(&self.log_paths),
            logs: Arc::clone(&self.logs),
            clock: Arc::clone(&self.clock),
        }
    }
}
