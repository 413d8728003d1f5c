//! The complete pods of one node.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use model::ids::{PodName, PodUid};
use model::ports::cluster::{ApiError, Sink};
use model::ports::pod_api::PodApi;

use crate::call::{Call, decoded, found};
use crate::decode::Identity;
use crate::decode::node::Node;
use crate::follow::{Follower, HasMetadata, Kind};
use crate::{Cluster, urls};

struct PodsOf {
    path: String,
}

impl HasMetadata for Pod {
    fn identity(&self) -> Identity<'_> {
        Identity::of(&self.metadata)
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

    fn key(pod: &Identity<'_>) -> PodUid {
        (&*pod.uid).into()
    }

    fn record(&self, pod: Pod) -> Arc<Pod> {
        Arc::new(pruned(pod))
    }
}

/// Drops fields that the agent does not read.
fn pruned(mut pod: Pod) -> Pod {
    pod.metadata.managed_fields = None;
    pod.metadata.self_link = None;
    pod
}

#[async_trait]
impl PodApi for Cluster {
    async fn follow_pods_of(&self, node: &str, sink: &dyn Sink<Arc<Pod>, PodUid>) {
        let selector = urls::part(&format!("spec.nodeName={node}"));
        let path = format!("/api/v1/pods?fieldSelector={selector}");
        Follower::new(&self.caller, PodsOf { path }, sink).run().await;
    }

    async fn patch_status(&self, pod: &PodName, patch: String) -> Result<Arc<Pod>, ApiError> {
        let call = Call::patch(urls::pod(&pod.namespace, &pod.name) + "/status", patch);
        Ok(Arc::new(pruned(self.caller.send_decoded(call).await?)))
    }

    async fn create_pod(&self, pod: &Pod) -> Result<Arc<Pod>, ApiError> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
        let call = Call::object(Method::POST, urls::pods(namespace), pod)?;
        Ok(Arc::new(pruned(self.caller.send_decoded(call).await?)))
    }

    async fn node_uid(&self, node: &str) -> Result<Option<String>, ApiError> {
        let answer = found(self.caller.read(Call::get(urls::node(node))).await)?;
        let Some(answer) = answer else { return Ok(None) };
        let node: Node<'_> = decoded(&answer)?;
        let goes = node.metadata.deletion_timestamp.is_some();
        Ok((!goes).then(|| node.metadata.uid().to_string()))
    }
}
