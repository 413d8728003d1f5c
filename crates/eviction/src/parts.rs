//! What the eviction manager needs of other parts of the agent.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use config::KubeletConfiguration;
use k8s_openapi::api::core::v1::Pod;
use model::ids::PodUid;
use model::pod_failure::PodFailure;
use model::ports::clock::WallClock;
use model::ports::events::{Events, NodeEvents};
use model::ports::incidents::IncidentRecord;
use model::ports::usage::UsageSource;

use crate::decide::layout::Devices;
use crate::decide::threshold::{Threshold, thresholds};
use crate::metrics::EvictionMetrics;

/// The pods of the node.
#[async_trait]
pub trait EvictionPods: Debug + Send + Sync {
    /// The admitted pods that have not terminated, with their allocated resources.
    fn candidates(&self) -> Vec<Arc<Pod>>;
    /// Kills a pod, whose final status is this failure. Returns when nothing of it runs; an error if that takes
    /// too long.
    async fn evict(
        &self,
        pod: &Arc<Pod>,
        grace: Duration,
        failure: PodFailure,
    ) -> Result<(), EvictError>;
    /// Whether the pod has ended and everything of it is cleaned up.
    fn is_cleaned_up(&self, uid: &PodUid) -> bool;
}

/// A pod did not terminate in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EvictError(pub String);

/// Removes what no pod needs.
#[async_trait]
pub trait NodeReclaimer: Debug + Send + Sync {
    /// Removes all dead containers of terminated pods. Returns how many objects were removed.
    async fn delete_unused_containers(&self) -> u64;
    /// Removes all unused images. Returns how many were removed.
    async fn delete_unused_images(&self) -> u64;
}

/// Finds out on which disks the file systems are.
#[async_trait]
pub trait FileSystems: Debug + Send + Sync {
    /// The devices; the error says why they are unknown.
    async fn devices(&self) -> Result<Devices, String>;
}

/// The dependencies of the eviction manager.
#[derive(Debug)]
pub struct EvictionParts {
    /// Measures usage.
    pub usage: Arc<dyn UsageSource>,
    /// The pods.
    pub pods: Arc<dyn EvictionPods>,
    /// Garbage collection.
    pub reclaimer: Arc<dyn NodeReclaimer>,
    /// The disks.
    pub file_systems: Arc<dyn FileSystems>,
    /// Records events of pods.
    pub events: Arc<dyn Events>,
    /// Records events of the node.
    pub node_events: Arc<dyn NodeEvents>,
    /// Records evictions in the journal.
    pub incidents: Arc<dyn IncidentRecord>,
    /// The time of day.
    pub clock: Arc<dyn WallClock>,
    /// Metrics.
    pub metrics: EvictionMetrics,
}

/// The settings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EvictionSettings {
    /// The configured thresholds.
    pub thresholds: Vec<Threshold>,
    /// `evictionPressureTransitionPeriod`.
    pub transition: Duration,
    /// `evictionMaxPodGracePeriod`.
    pub most_grace: Duration,
    /// `localStorageCapacityIsolation`: whether limits of local storage are enforced.
    pub local_limits: bool,
    /// `kernelMemcgNotification`: whether the kernel notifies about thresholds of memory, on cgroup v1.
    pub memcg_notification: bool,
}

impl EvictionSettings {
    /// The settings of a configuration.
    pub fn new(config: &KubeletConfiguration) -> Self {
        let most_grace = u64::try_from(config.eviction_max_pod_grace_period).unwrap_or(0);
        Self {
            thresholds: thresholds(config),
            transition: config.eviction_pressure_transition_period.to_std(),
            most_grace: Duration::from_secs(most_grace),
            local_limits: config.local_storage_capacity_isolation,
            memcg_notification: config.kernel_memcg_notification,
        }
    }

    /// Whether there is nothing to evict pods for.
    pub(crate) fn are_off(&self) -> bool {
        self.thresholds.is_empty() && !self.local_limits
    }
}
