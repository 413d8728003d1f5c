//! Metrics of events.

use prometheus::{IntCounter, IntCounterVec, Opts, Registry};

use crate::decide::DropReason;

/// The metrics of events.
#[derive(Debug, Clone)]
pub struct Metrics {
    written: IntCounter,
    dropped: IntCounterVec,
}

impl Metrics {
    /// Creates metrics in the given registry.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let written = IntCounter::new(
            "ferrolet_events_written_total",
            "Events that were written to the API server, or counted there.",
        )?;
        let dropped = Opts::new(
            "ferrolet_events_dropped_total",
            "Events that did not reach the API server, by reason.",
        );
        let dropped = IntCounterVec::new(dropped, &["why"])?;
        registry.register(Box::new(written.clone()))?;
        registry.register(Box::new(dropped.clone()))?;
        Ok(Self { written, dropped })
    }

    pub(crate) fn written(&self) {
        self.written.inc();
    }

    pub(crate) fn dropped(&self, why: DropReason) {
        self.dropped.with_label_values(&[why.label()]).inc();
    }
}
