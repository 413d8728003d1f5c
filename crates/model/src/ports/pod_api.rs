//! The pods of one node in the API server: watches and writes of whole pods.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;

use crate::ids::{PodName, PodUid};
use crate::ports::cluster::{ApiError, Sink};

/// The pods that are bound to a node. Fields that the agent does not read, such as `managedFields`,
/// are dropped.
#[async_trait]
pub trait PodApi: Debug + Send + Sync {
    /// Sends all pods of a node and then every change, as
    /// [`PodFeed::follow_pods`](crate::ports::cluster::PodFeed::follow_pods) does.
    async fn follow_pods_of(&self, node: &str, sink: &dyn Sink<Arc<Pod>, PodUid>);

    /// Patches the status of a pod with a strategic merge patch. The UID in its `metadata` limits it to
    /// that pod. Returns the new pod.
    async fn patch_status(&self, pod: &PodName, patch: String) -> Result<Arc<Pod>, ApiError>;

    /// Creates a pod, in its namespace.
    async fn create_pod(&self, pod: &Pod) -> Result<Arc<Pod>, ApiError>;

    /// The UID of a node; `None` if it does not exist or is being deleted.
    async fn node_uid(&self, node: &str) -> Result<Option<String>, ApiError>;
}
