//! Events as log lines.

use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use model::ports::clock::WallClock;
use model::ports::events::{EventType, Events, NodeEvent, NodeEvents, PodEvent};
use tracing::{info, warn};

use crate::clock::SystemClock;

/// Events as log lines, for a node without an API server.
#[derive(Debug, Clone, Copy)]
pub struct LoggedEvents;

impl Events for LoggedEvents {
    fn record(&self, event: PodEvent) {
        let PodEvent { pod_uid: uid, pod, field_path, kind, reason, message, annotations: _ } =
            event;
        let reason = &*reason;
        match kind {
            EventType::Normal => {
                info!(%pod, %uid, %field_path, reason, note = %message, "Event occurred")
            }
            EventType::Warning => {
                warn!(%pod, %uid, %field_path, reason, note = %message, "Event occurred")
            }
        }
    }
}

impl NodeEvents for LoggedEvents {
    fn record(&self, event: NodeEvent) {
        let NodeEvent { kind, reason, message } = event;
        match kind {
            EventType::Normal => info!(reason, note = %message, "Node event"),
            EventType::Warning => warn!(reason, note = %message, "Node event"),
        }
    }
}

/// Events of a node whose agent has not started yet: log lines, and a list that is sent to the API server if the agent
/// cannot start.
#[derive(Debug, Default)]
pub struct EarlyEvents(Mutex<Vec<(Timestamp, NodeEvent)>>);

impl EarlyEvents {
    /// The events so far, with their times.
    pub fn into_kept(self) -> Vec<(Timestamp, NodeEvent)> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NodeEvents for EarlyEvents {
    fn record(&self, event: NodeEvent) {
        NodeEvents::record(&LoggedEvents, event.clone());
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push((SystemClock.now(), event));
    }
}
