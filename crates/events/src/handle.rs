//! Queues events without blocking.

use std::borrow::Cow;
use std::sync::Arc;

use model::cluster::{ClusterEvent, InvolvedObject};
use model::ports::clock::WallClock;
use model::ports::events::{EventType, Events, NodeEvent, NodeEvents, PodEvent};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::debug;

use crate::decide::DropReason;
use crate::metrics::Metrics;
use crate::task::{EventWriter, QueuedEvent};

/// The capacity of the queue.
pub(crate) const MOST_WAITING: usize = 1000;

/// Queues events for the API server.
#[derive(Debug, Clone)]
pub struct ApiEvents {
    /// Closed by the writer when it ends; events are dropped then.
    queue: mpsc::Sender<QueuedEvent>,
    node: Arc<str>,
    clock: Arc<dyn WallClock>,
    metrics: Metrics,
}

/// Creates the queue of a node's events and its writer.
pub fn channel(
    node: &str,
    clock: Arc<dyn WallClock>,
    metrics: Metrics,
) -> (ApiEvents, EventWriter) {
    let (queue, receiver) = mpsc::channel(MOST_WAITING);
    let writer = EventWriter::new(receiver, metrics.clone());
    (ApiEvents { queue, node: node.into(), clock, metrics }, writer)
}

/// The node as the object of an event. Upstream sets no uid either.
pub fn about_node(name: &str) -> InvolvedObject {
    InvolvedObject {
        api_version: "v1",
        kind: "Node",
        namespace: String::new(),
        name: name.to_owned(),
        uid: "".into(),
        field_path: String::new(),
    }
}

impl ApiEvents {
    fn event(
        &self,
        about: InvolvedObject,
        kind: EventType,
        reason: Cow<'static, str>,
        message: String,
    ) -> ClusterEvent {
        let is_warning = kind == EventType::Warning;
        ClusterEvent::new(about, is_warning, reason, message, self.clock.now())
    }

    fn send(&self, event: ClusterEvent) {
        let queued = QueuedEvent { event, at: Instant::now() };
        if let Err(refused) = self.queue.try_send(queued) {
            let QueuedEvent { event, .. } = refused.into_inner();
            debug!(about = event.about.name, reason = %event.reason, "Event queue is full, dropping event");
            self.metrics.dropped(DropReason::QueueFull);
        }
    }
}

impl Events for ApiEvents {
    fn record(&self, event: PodEvent) {
        let about = InvolvedObject {
            api_version: "v1",
            kind: "Pod",
            namespace: event.pod.namespace.to_string(),
            name: event.pod.name.to_string(),
            uid: event.pod_uid.as_str().into(),
            field_path: event.field_path.to_string(),
        };
        let annotations = event.annotations;
        let event = self.event(about, event.kind, event.reason, event.message);
        self.send(ClusterEvent { annotations, ..event });
    }
}

impl NodeEvents for ApiEvents {
    fn record(&self, event: NodeEvent) {
        let about = about_node(&self.node);
        self.send(self.event(about, event.kind, event.reason.into(), event.message));
    }
}
