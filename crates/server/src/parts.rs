//! What the server is made of: views of the agent, as narrow as its answers.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use journal::{Found, Query};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use model::ids::{ContainerId, PodUid};
use model::ports::clock::WallClock;
use model::ports::logs::ContainerLogs;
use model::probe::ProbeReport;
use model::program::{HealthChecks, Verbosity};
use tokio::sync::watch;

use crate::event_book::EventBook;
use crate::streaming::Streams;
use crate::wire::{GcLine, GcPlan, RefusedManifest, Version, WaitingVolume};

/// A pod and how it is.
#[derive(Debug, Clone)]
pub struct PodAndStatus {
    /// The pod as it was given to the agent.
    pub pod: Arc<Pod>,
    /// Its status, which goes before one that the pod came with.
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
        // What did not change is mostly the same object, and that is quickly seen.
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

    /// Manifests that do not have their way.
    fn refused(&self) -> Vec<RefusedManifest>;

    /// A number that is another one whenever one of the others gives something else. Its sender goes
    /// when the agent ends.
    fn changes(&self) -> watch::Receiver<u64>;
}

/// Where logs are.
pub trait LogPaths: Debug + Send + Sync {
    /// The log of an instance of a container, as the runtime names it.
    fn log_path(&self, pod: &PodUid, container: &ContainerId) -> Option<PathBuf>;
}

/// The agent's metrics.
pub trait MetricsText: Debug + Send + Sync {
    /// All metrics in the text format of Prometheus.
    fn text(&self) -> String;
}

/// The record of what was removed.
#[async_trait]
pub trait Removals: Debug + Send + Sync {
    /// The newest entries that are meant; the error says why they are unknown.
    async fn why(&self, query: Query, limit: usize) -> Result<Found, String>;

    /// The same with incidents: kills, restarts and rejections.
    async fn history(&self, query: Query, limit: usize) -> Result<Found, String>;
}

/// Garbage collection.
#[async_trait]
pub trait Collector: Debug + Send + Sync {
    /// What the next pass would remove and keep. Changes nothing.
    async fn plan(&self) -> GcPlan;

    /// Makes a pass now and streams its steps. The pass continues without a reader.
    async fn run(&self) -> BoxStream<'static, GcLine>;
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
    /// The time of day.
    pub clock: Arc<dyn WallClock>,
}

/// All that the server answers from.
#[derive(Debug)]
pub struct Parts {
    /// The pods.
    pub pods: Arc<dyn PodView>,
    /// Their last events.
    pub events: Arc<EventBook>,
    /// Where their logs are.
    pub log_paths: Arc<dyn LogPaths>,
    /// Reads logs.
    pub logs: Arc<dyn ContainerLogs>,
    /// Whether the agent is well.
    pub health: Arc<dyn HealthChecks>,
    /// The agent's metrics.
    pub metrics: Arc<dyn MetricsText>,
    /// What was removed.
    pub removals: Arc<dyn Removals>,
    /// What would be.
    pub collector: Arc<dyn Collector>,
    /// Streams into containers; `None` where there is no runtime for them.
    pub streams: Option<Arc<Streams>>,
    /// How much the agent logs.
    pub verbosity: Arc<dyn Verbosity>,
    /// Tells what "ten seconds ago" is.
    pub clock: Arc<dyn WallClock>,
    /// Who answers.
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
