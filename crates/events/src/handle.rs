//! Takes events, and never waits.

use std::sync::Arc;

use model::cluster::{About, ClusterEvent};
use model::ports::clock::WallClock;
use model::ports::events::{EventType, Events, NodeEvent, NodeEvents, PodEvent};
use tokio::sync::mpsc;
use tracing::debug;

use crate::metrics::{Dropped, Metrics};
use crate::task::EventWriter;

/// How many events wait to be written.
pub(crate) const MOST_WAITING: usize = 1000;

/// Takes events for the API server.
#[derive(Debug, Clone)]
pub struct ApiEvents {
    /// Closed by the writer when it ends; events are dropped then.
    queue: mpsc::Sender<ClusterEvent>,
    node: Arc<str>,
    clock: Arc<dyn WallClock>,
    metrics: Metrics,
}

/// What takes events on a node of that name, and what writes them.
pub fn channel(
    node: &str,
    clock: Arc<dyn WallClock>,
    metrics: Metrics,
) -> (ApiEvents, EventWriter) {
    let (queue, coming) = mpsc::channel(MOST_WAITING);
    let writer = EventWriter::new(coming, metrics.clone());
    (ApiEvents { queue, node: node.into(), clock, metrics }, writer)
}

impl ApiEvents {
    fn send(&self, event: ClusterEvent) {
        if let Err(refused) = self.queue.try_send(event) {
            let event = refused.into_inner();
            debug!(about = event.about.name, reason = %event.reason, "an event was dropped: too many wait");
            self.metrics.dropped(Dropped::QueueFull);
        }
    }
}

impl Events for ApiEvents {
    fn record(&self, event: PodEvent) {
        let now = self.clock.now();
        self.send(ClusterEvent {
            about: About {
                api_version: "v1",
                kind: "Pod",
                namespace: event.pod.namespace.to_string(),
                name: event.pod.name.to_string(),
                uid: event.pod_uid.as_str().into(),
                field_path: event.field_path.to_string(),
            },
            is_warning: event.kind == EventType::Warning,
            reason: event.reason,
            message: event.message,
            first: now,
            at: now,
            count: 1,
        });
    }
}

impl NodeEvents for ApiEvents {
    fn record(&self, event: NodeEvent) {
        let now = self.clock.now();
        self.send(ClusterEvent {
            // Its uid upstream does not tell either.
            about: About {
                api_version: "v1",
                kind: "Node",
                namespace: String::new(),
                name: self.node.to_string(),
                uid: "".into(),
                field_path: String::new(),
            },
            is_warning: event.kind == EventType::Warning,
            reason: event.reason.into(),
            message: event.message,
            first: now,
            at: now,
            count: 1,
        });
    }
}
