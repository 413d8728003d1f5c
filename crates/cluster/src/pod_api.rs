//! The pods of one node, whole.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use model::ids::{PodName, PodUid};
use model::ports::cluster::{ApiError, Sink};
use model::ports::pod_api::PodApi;

use crate::call::{Call, JSON, Lane, STRATEGIC_MERGE};
use crate::decode::node::Node;
use crate::follow::{Follower, HasMetadata, Kind};
use crate::{Cluster, urls};

struct PodsOf {
    path: String,
}

impl HasMetadata for Pod {
    fn version(&self) -> &str {
        self.metadata.resource_version.as_deref().unwrap_or_default()
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(name).map(String::as_str)
    }
}

impl Kind for PodsOf {
    type Object<'a> = Pod;
    type Record = Arc<Pod>;
    type Key = PodUid;
    const NAME: &'static str = "pods of this node";

    fn path(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.path)
    }

    fn key(pod: &Pod) -> PodUid {
        pod.metadata.uid.as_deref().unwrap_or_default().into()
    }

    fn record(&self, pod: Pod) -> Arc<Pod> {
        Arc::new(pruned(pod))
    }
}

/// Without what nobody here reads.
fn pruned(mut pod: Pod) -> Pod {
    pod.metadata.managed_fields = None;
    pod.metadata.self_link = None;
    pod
}

fn read(answer: &[u8]) -> Result<Arc<Pod>, ApiError> {
    let pod = serde_json::from_slice(answer);
    Ok(Arc::new(pruned(pod.map_err(|error| ApiError::Unreadable(Box::new(error)))?)))
}

#[async_trait]
impl PodApi for Cluster {
    async fn follow_pods_of(&self, node: &str, sink: &dyn Sink<Arc<Pod>, PodUid>) {
        let selector = urls::part(&format!("spec.nodeName={node}"));
        let path = format!("/api/v1/pods?fieldSelector={selector}");
        Follower::new(&self.caller, PodsOf { path }, sink).run().await;
    }

    async fn patch_status(&self, pod: &PodName, patch: String) -> Result<Arc<Pod>, ApiError> {
        let call = Call {
            method: Method::PATCH,
            path: urls::pod(&pod.namespace, &pod.name) + "/status",
            content_type: STRATEGIC_MERGE,
            body: patch.into_bytes(),
            lane: Lane::Ordinary,
        };
        read(&self.caller.read(call).await?)
    }

    async fn create_pod(&self, pod: &Pod) -> Result<Arc<Pod>, ApiError> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
        let body = serde_json::to_vec(pod);
        let call = Call {
            method: Method::POST,
            path: urls::pods(namespace),
            content_type: JSON,
            body: body.map_err(|error| ApiError::Unreadable(Box::new(error)))?,
            lane: Lane::Ordinary,
        };
        read(&self.caller.read(call).await?)
    }

    async fn node_uid(&self, node: &str) -> Result<Option<String>, ApiError> {
        let answer = match self.caller.read(Call::get(urls::node(node))).await {
            Err(ApiError::NotFound) => return Ok(None),
            answer => answer?,
        };
        let node: Node<'_> = serde_json::from_slice(&answer)
            .map_err(|error| ApiError::Unreadable(Box::new(error)))?;
        let goes = node.metadata.deletion_timestamp.is_some();
        Ok((!goes).then(|| node.metadata.uid().to_string()))
    }
}
