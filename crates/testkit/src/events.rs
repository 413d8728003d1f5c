//! Events, kept for the test that asks.

use std::sync::{Mutex, PoisonError};

use model::ports::events::{Events, NodeEvent, NodeEvents, PodEvent};

/// Keeps every event, in order.
#[derive(Debug, Default)]
pub struct KeptEvents {
    events: Mutex<Vec<PodEvent>>,
}

impl KeptEvents {
    /// The events so far.
    pub fn all(&self) -> Vec<PodEvent> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether there was one for this reason.
    pub fn has(&self, reason: &str) -> bool {
        self.all().iter().any(|event| event.reason == reason)
    }

    /// The reasons of the events so far.
    pub fn reasons(&self) -> Vec<String> {
        self.all().iter().map(|event| event.reason.to_string()).collect()
    }
}

impl Events for KeptEvents {
    fn record(&self, event: PodEvent) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}

/// Keeps every event of the node, in order.
#[derive(Debug, Default)]
pub struct KeptNodeEvents {
    events: Mutex<Vec<NodeEvent>>,
}

impl KeptNodeEvents {
    /// The events so far.
    pub fn all(&self) -> Vec<NodeEvent> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl NodeEvents for KeptNodeEvents {
    fn record(&self, event: NodeEvent) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}
