//! Statistics on request.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::machine::Identity;
use model::observed::RuntimePodStatus;
use model::ports::cgroup_usage::CgroupUsage;
use model::ports::clock::WallClock;
use model::ports::disk::Disks;
use model::ports::node_usage::NodeUsage;
use model::ports::runtime::Runtime;
use model::ports::usage::{UsageError, UsageSource};
use model::stats::{NodeStats, Summary};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::decide::resource_metrics;
use crate::decide::summary::NodeFacts;
use crate::measure::Measurer;
use crate::shared::{Shared, SharedTask, shared};
use crate::volume_walks::VolumeUsage;

/// How old an answer to an external request may be.
const YOUNG: Duration = Duration::from_secs(1);

/// The pods that were observed in the runtime.
pub trait ObservedPods: Debug + Send + Sync {
    /// The statuses of all pods that may have a running container.
    fn observed_pods(&self) -> Vec<Arc<RuntimePodStatus>>;
}

/// The dependencies of statistics.
#[derive(Debug, Clone)]
pub struct StatisticsParts {
    /// Reads cgroups.
    pub cgroups: Arc<dyn CgroupUsage>,
    /// Reads network traffic and tasks.
    pub node: Arc<dyn NodeUsage>,
    /// Measures file systems.
    pub disks: Arc<dyn Disks>,
    /// The container runtime.
    pub runtime: Runtime,
    /// The pods.
    pub pods: Arc<dyn ObservedPods>,
    /// The usage of volumes.
    pub volumes: VolumeUsage,
    /// The time of day.
    pub clock: Arc<dyn WallClock>,
}

/// The settings of statistics.
#[derive(Debug, Clone, Default)]
pub struct StatisticsSettings {
    /// The node.
    pub facts: NodeFacts,
    /// The cgroup of all pods; `/` if pods have no cgroups.
    pub pods_cgroup: String,
    /// The directory of container logs.
    pub pod_logs: PathBuf,
    /// The parent of the pod directories.
    pub pods: PathBuf,
    /// The number of CPUs.
    pub cpus: u32,
    /// The identity of the machine.
    pub identity: Identity,
}

/// Statistics of the node and its pods. Clones share measurements.
#[derive(Debug, Clone)]
pub struct Statistics {
    measurer: Arc<Measurer>,
    whole: Shared<Summary>,
    cpu_and_memory: Shared<Summary>,
    cadvisor: Shared<String>,
}

/// Makes the measurements.
#[derive(Debug)]
pub struct StatisticsTask {
    measurer: Arc<Measurer>,
    whole: SharedTask<Summary>,
    cpu_and_memory: SharedTask<Summary>,
    cadvisor: SharedTask<String>,
}

impl Statistics {
    /// Statistics, and the task that measures.
    pub fn new(parts: StatisticsParts, settings: StatisticsSettings) -> (Self, StatisticsTask) {
        let measurer = Arc::new(Measurer::new(parts, settings));
        let ((whole, whole_task), (cpu_and_memory, cpu_and_memory_task)) = (shared(), shared());
        let (cadvisor, cadvisor_task) = shared();
        let task = StatisticsTask {
            measurer: Arc::clone(&measurer),
            whole: whole_task,
            cpu_and_memory: cpu_and_memory_task,
            cadvisor: cadvisor_task,
        };
        (Self { measurer, whole, cpu_and_memory, cadvisor }, task)
    }

    /// The summary of CPU and memory alone, which needs no call to the runtime.
    pub async fn cpu_and_memory(&self) -> Result<Arc<Summary>, UsageError> {
        self.cpu_and_memory.get(YOUNG).await
    }

    /// The page `/metrics/resource`.
    pub async fn resource_metrics(&self) -> String {
        let summary = self.cpu_and_memory().await;
        if let Err(error) = &summary {
            warn!(%error, "Cannot measure the usage of the node for /metrics/resource");
        }
        resource_metrics::page(summary.ok().as_deref())
    }

    /// The page `/metrics/cadvisor`.
    pub async fn cadvisor_metrics(&self) -> Result<Arc<String>, UsageError> {
        self.cadvisor.get(YOUNG).await
    }
}

impl StatisticsTask {
    /// Measures on request, until the stop. A runtime that hangs delays only the whole summary.
    pub async fn run(self, stop: CancellationToken) {
        let measurer = &*self.measurer;
        tokio::join!(
            self.whole.run(|| measurer.whole(), stop.clone()),
            self.cpu_and_memory.run(|| measurer.cpu_and_memory(), stop.clone()),
            self.cadvisor.run(|| measurer.cadvisor(), stop),
        );
    }
}

#[async_trait]
impl UsageSource for Statistics {
    async fn summary(&self, max_age: Duration) -> Result<Arc<Summary>, UsageError> {
        self.whole.get(max_age).await
    }

    async fn node(&self) -> Result<NodeStats, UsageError> {
        self.measurer.node().await
    }
}
