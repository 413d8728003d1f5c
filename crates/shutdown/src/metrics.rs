//! Metrics of shutdowns.

use jiff::Timestamp;
use prometheus::{Gauge, Registry};

use crate::decide::SavedState;

/// When the last shutdown began and ended, in upstream's metrics.
#[derive(Debug, Clone)]
pub struct ShutdownMetrics {
    start: Gauge,
    end: Gauge,
}

impl ShutdownMetrics {
    /// Registers the metrics.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let start = Gauge::new(
            "kubelet_graceful_shutdown_start_time_seconds",
            "Start of the last graceful shutdown of the node, in seconds since the epoch.",
        )?;
        let end = Gauge::new(
            "kubelet_graceful_shutdown_end_time_seconds",
            "End of the last graceful shutdown of the node, in seconds since the epoch; 0 while it lasts.",
        )?;
        registry.register(Box::new(start.clone()))?;
        registry.register(Box::new(end.clone()))?;
        Ok(Self { start, end })
    }

    pub(crate) fn set(&self, state: SavedState) {
        #[expect(clippy::cast_precision_loss, reason = "a time of this millennium fits")]
        let seconds = |time: Option<Timestamp>| time.map_or(0.0, |time| time.as_second() as f64);
        self.start.set(seconds(state.start));
        self.end.set(seconds(state.end));
    }
}
