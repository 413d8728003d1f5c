//! Events, kept for the test that asks.

use std::sync::{Mutex, PoisonError};

use model::ports::events::{Events, PodEvent};

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

    /// The reasons of the events so far.
    pub fn reasons(&self) -> Vec<&'static str> {
        self.all().iter().map(|event| event.reason).collect()
    }
}

impl Events for KeptEvents {
    fn record(&self, event: PodEvent) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}
