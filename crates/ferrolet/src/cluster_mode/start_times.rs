//! Measures how long pods of the API server take to start.

use std::sync::Arc;

use model::ports::events::{Events, PodEvent};
use status::StartTimes;

use crate::wiring::Ports;

/// Start times, and the metrics that they and the status writer share.
#[derive(Debug)]
pub(crate) struct StartTimer {
    pub(crate) times: StartTimes,
    pub(crate) metrics: status::Metrics,
}

impl StartTimer {
    /// The timer, where there is a cluster.
    pub(crate) fn new(ports: &Ports) -> Option<Self> {
        ports.cluster.as_ref()?;
        let metrics = status::Metrics::new(&ports.metrics).expect("no other part times statuses");
        let times = StartTimes::new(Arc::clone(&ports.clock), metrics.clone());
        Some(Self { times, metrics })
    }

    /// Puts the timer in front of a receiver of events: events show when images are pulled.
    pub(crate) fn observe(&self, events: Arc<dyn Events>) -> Arc<dyn Events> {
        Arc::new(ObservedEvents { times: self.times.clone(), events })
    }
}

/// A receiver of events with a timer in front of it.
#[derive(Debug)]
struct ObservedEvents {
    times: StartTimes,
    events: Arc<dyn Events>,
}

impl Events for ObservedEvents {
    fn record(&self, event: PodEvent) {
        self.times.happened(&event);
        self.events.record(event);
    }
}
