//! The pods of one node, as the API server has them: whole, followed and written.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;

use crate::ids::{PodName, PodUid};
use crate::ports::cluster::{ApiError, Sink};

/// The pods that are bound to a node. What nobody on a node reads of them, such as who wrote which
/// field, is not there.
#[async_trait]
pub trait PodApi: Debug + Send + Sync {
    /// Tells all pods of a node and then every change, as
    /// [`PodFeed::follow_pods`](crate::ports::cluster::PodFeed::follow_pods) does.
    async fn follow_pods_of(&self, node: &str, sink: &dyn Sink<Arc<Pod>, PodUid>);

    /// Changes the status of a pod by a strategic merge patch; the uid in its `metadata` makes it one
    /// of that very pod. The pod afterwards.
    async fn patch_status(&self, pod: &PodName, patch: String) -> Result<Arc<Pod>, ApiError>;

    /// Makes a pod, in the namespace that it names.
    async fn create_pod(&self, pod: &Pod) -> Result<Arc<Pod>, ApiError>;

    /// The uid of a node; `None` when it does not exist or is being deleted.
    async fn node_uid(&self, node: &str) -> Result<Option<String>, ApiError>;
}
