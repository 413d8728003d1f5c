//! Metrics under upstream's names.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, Registry};

/// What is timed.
#[derive(Debug, Clone)]
pub struct Metrics {
    worker: HistogramVec,
}

impl Metrics {
    /// Metrics that show up in a registry.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let options = HistogramOpts::new(
            "kubelet_pod_worker_duration_seconds",
            "Time from when something was asked of a pod's worker until that is done, by what was asked.",
        );
        let worker = HistogramVec::new(options, &["operation_type"])?;
        registry.register(Box::new(worker.clone()))?;
        Ok(Self { worker })
    }

    pub(crate) fn worked(&self, asked: &str, took: Duration) {
        self.worker.with_label_values(&[asked]).observe(took.as_secs_f64());
    }
}
