//! Events of the API server.

use async_trait::async_trait;
use http::Method;
use model::cluster::ClusterEvent;
use model::ports::cluster::{ApiError, ClusterEvents};
use serde_json::{Value, json};

use crate::call::Call;
use crate::{Cluster, Source, urls};

#[async_trait]
impl ClusterEvents for Cluster {
    async fn write_event(&self, event: &ClusterEvent) -> Result<(), ApiError> {
        let namespace = urls::part(&event.about.namespace);
        let path = format!("/api/v1/namespaces/{namespace}/events");
        let call = Call::json(Method::POST, path, &written(event, &self.source)).in_own_lane();
        self.caller.read(call).await.map(drop)
    }
}

fn written(event: &ClusterEvent, source: &Source) -> Value {
    let about = &event.about;
    let at = event.at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    json!({
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {
            "namespace": about.namespace,
            // As upstream's recorder names them: unique by their time.
            "name": format!("{}.{:x}", about.name, event.at.as_nanosecond()),
        },
        "involvedObject": {
            "kind": about.kind,
            "apiVersion": about.api_version,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid.to_string(),
        },
        "reason": event.reason,
        "message": event.message,
        "type": if event.is_warning { "Warning" } else { "Normal" },
        "source": { "component": source.component, "host": source.host },
        "reportingComponent": source.component,
        "reportingInstance": source.host,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    })
}
