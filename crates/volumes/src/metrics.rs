//! Metrics under upstream's names.

use std::time::Duration;

use model::volume::Plugin;
use prometheus::{HistogramOpts, HistogramVec, Registry};
use tokio::time::Instant;

/// What is counted and timed.
#[derive(Debug, Clone)]
pub struct Metrics {
    operations: HistogramVec,
}

impl Metrics {
    /// Metrics that show up in a registry.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let options =
            HistogramOpts::new("storage_operation_duration_seconds", "Storage operation duration")
                .buckets(vec![
                    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0,
                ]);
        let labels = ["migrated", "operation_name", "status", "volume_plugin"];
        let operations = HistogramVec::new(options, &labels)?;
        registry.register(Box::new(operations.clone()))?;
        Ok(Self { operations })
    }

    /// An operation begins.
    pub(crate) fn begin(&self, plugin: Plugin, operation: &'static str) -> Timing<'_> {
        Timing { metrics: self, plugin, operation, began: Instant::now() }
    }

    fn ended(&self, timing: &Timing<'_>, status: &str, took: Duration) {
        let labels = ["false", timing.operation, status, timing.plugin.name()];
        self.operations.with_label_values(&labels).observe(took.as_secs_f64());
    }
}

/// An operation under way.
#[derive(Debug)]
pub(crate) struct Timing<'a> {
    metrics: &'a Metrics,
    plugin: Plugin,
    operation: &'static str,
    began: Instant,
}

impl Timing<'_> {
    /// It has ended.
    pub(crate) fn ended(self, worked: bool) {
        let status = if worked { "success" } else { "fail-unknown" };
        self.metrics.ended(&self, status, self.began.elapsed());
    }
}
