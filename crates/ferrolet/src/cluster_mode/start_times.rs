//! Times how long pods of the API take to start, by what happens to them.

use std::sync::Arc;

use model::ports::events::{Events, PodEvent};
use status::StartTimes;

use crate::wiring::Ports;

/// Who times starts, where there is a cluster. Hears of events from now on.
pub(crate) fn time_starts(ports: &mut Ports) -> Option<(StartTimes, status::Metrics)> {
    ports.cluster.as_ref()?;
    let metrics = status::Metrics::new(&ports.metrics).expect("nobody else times statuses");
    let starts = StartTimes::new(Arc::clone(&ports.clock), metrics.clone());
    let further = Arc::clone(&ports.events);
    ports.events = Arc::new(Heard { starts: starts.clone(), further });
    Some((starts, metrics))
}

/// Hears of events on their way.
#[derive(Debug)]
struct Heard {
    starts: StartTimes,
    further: Arc<dyn Events>,
}

impl Events for Heard {
    fn record(&self, event: PodEvent) {
        self.starts.happened(&event);
        self.further.record(event);
    }
}
