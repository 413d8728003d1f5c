//! Events, recorded for tests.

use std::sync::{Mutex, PoisonError};

use model::ports::events::{Events, NodeEvent, NodeEvents, PodEvent};

/// Records every event, in order.
#[derive(Debug, Default)]
pub struct KeptEvents {
    events: Mutex<Vec<PodEvent>>,
    /// The pod, by name, and the reason of events that panic.
    panics: Mutex<Option<(String, String)>>,
}

impl KeptEvents {
    /// The events so far.
    pub fn all(&self) -> Vec<PodEvent> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether there was an event with this reason.
    pub fn has(&self, reason: &str) -> bool {
        self.all().iter().any(|event| event.reason == reason)
    }

    /// Makes events of a pod with this reason panic; `None` clears this. They are not recorded.
    pub fn panic_on(&self, event: Option<(&str, &str)>) {
        let event = event.map(|(pod, reason)| (pod.to_owned(), reason.to_owned()));
        *self.panics.lock().unwrap_or_else(PoisonError::into_inner) = event;
    }

    /// The reasons of the events so far.
    pub fn reasons(&self) -> Vec<String> {
        self.all().iter().map(|event| event.reason.to_string()).collect()
    }
}

impl Events for KeptEvents {
    fn record(&self, event: PodEvent) {
        let panics = self.panics.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let panics =
            panics.is_some_and(|(pod, reason)| *event.pod.name == pod && event.reason == reason);
        assert!(!panics, "injected by a test");
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}

/// Records every event of the node, in order.
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
