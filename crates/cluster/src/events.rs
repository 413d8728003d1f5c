//! Events of the API server.

use async_trait::async_trait;
use http::Method;
use jiff::Timestamp;
use model::cluster::{ClusterEvent, InvolvedObject};
use model::names::dns_subdomain;
use model::ports::cluster::{ApiError, ClusterEvents};
use serde_json::{Map, Value, json};

use crate::call::{Call, Lane};
use crate::{Cluster, Source, urls};

#[async_trait]
impl ClusterEvents for Cluster {
    async fn write_event(&self, event: &ClusterEvent) -> Result<(), ApiError> {
        let path = urls::events(namespace(&event.about));
        let call = Call::json(Method::POST, path, &written(event, &self.source));
        self.caller.read(call.in_lane(Lane::Events)).await.map(drop)
    }

    async fn count_event(&self, event: &ClusterEvent) -> Result<(), ApiError> {
        let path = urls::events(namespace(&event.about));
        let path = format!("{path}/{}", urls::part(&name(event)));
        let call = Call::patch(path, counted(event).to_string());
        self.caller.read(call.in_lane(Lane::Events)).await.map(drop)
    }
}

/// The namespace of events about an object.
fn namespace(about: &InvolvedObject) -> &str {
    if about.namespace.is_empty() { "default" } else { &about.namespace }
}

/// A name as upstream's recorder makes it: unique by its time. If that is too long, or no valid name, the uid
/// replaces it.
fn name(event: &ClusterEvent) -> String {
    let time = event.first.as_nanosecond();
    let name = format!("{}.{time:x}", event.about.name);
    if dns_subdomain(&name).is_empty() { name } else { format!("{}.{time:x}", event.about.uid) }
}

fn second(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn written(event: &ClusterEvent, source: &Source) -> Value {
    json!({
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": metadata(event),
        "involvedObject": involved(&event.about),
        "reason": event.reason,
        "message": event.message,
        "type": if event.is_warning { "Warning" } else { "Normal" },
        "source": { "component": source.component, "host": source.host },
        "reportingComponent": source.component,
        "reportingInstance": source.host,
        "firstTimestamp": second(event.first),
        "lastTimestamp": second(event.at),
        "count": event.count,
    })
}

fn metadata(event: &ClusterEvent) -> Value {
    let mut metadata = json!({ "namespace": namespace(&event.about), "name": name(event) });
    let annotations = event.annotations.iter();
    let annotations: Map<String, Value> =
        annotations.map(|(name, value)| ((*name).to_owned(), value.clone().into())).collect();
    if !annotations.is_empty() {
        metadata["annotations"] = Value::Object(annotations);
    }
    metadata
}

/// The changed fields of a repeated event.
fn counted(event: &ClusterEvent) -> Value {
    json!({
        "count": event.count,
        "lastTimestamp": second(event.at),
        "message": event.message,
    })
}

/// The object of an event; unknown fields are absent.
fn involved(about: &InvolvedObject) -> Value {
    let fields = [
        ("kind", about.kind.to_owned()),
        ("apiVersion", about.api_version.to_owned()),
        ("namespace", about.namespace.clone()),
        ("name", about.name.clone()),
        ("uid", about.uid.to_string()),
        ("fieldPath", about.field_path.clone()),
    ];
    let known = fields.into_iter().filter(|(_, value)| !value.is_empty());
    Value::Object(known.map(|(name, value)| (name.to_owned(), value.into())).collect::<Map<_, _>>())
}
