//! What the agent sees of the outside: the time, and events for people.

use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use model::ports::clock::WallClock;
use model::ports::events::{EventType, Events, NodeEvent, NodeEvents, PodEvent};
use tracing::{info, warn};

/// The machine's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemClock;

impl WallClock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that all others ask")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Events as log lines: a node without a cluster has no other place for them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoggedEvents;

impl Events for LoggedEvents {
    fn record(&self, event: PodEvent) {
        let PodEvent { pod_uid: uid, pod, field_path, kind, reason, message } = event;
        let reason = &*reason;
        match kind {
            EventType::Normal => info!(%pod, %uid, %field_path, reason, note = %message, "event"),
            EventType::Warning => warn!(%pod, %uid, %field_path, reason, note = %message, "event"),
        }
    }
}

impl NodeEvents for LoggedEvents {
    fn record(&self, event: NodeEvent) {
        let NodeEvent { kind, reason, message } = event;
        match kind {
            EventType::Normal => info!(reason, note = %message, "event of the node"),
            EventType::Warning => warn!(reason, note = %message, "event of the node"),
        }
    }
}

/// Events of a node whose agent does not run yet: log lines, too, and kept for the cluster, which hears of them if
/// the agent cannot start.
#[derive(Debug, Default)]
pub(crate) struct EarlyEvents(Mutex<Vec<(Timestamp, NodeEvent)>>);

impl EarlyEvents {
    /// Those so far, and when they were.
    pub(crate) fn into_kept(self) -> Vec<(Timestamp, NodeEvent)> {
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
