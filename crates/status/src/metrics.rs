//! Metrics under upstream's names.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, Registry};

/// Upstream's.
const SYNC_BUCKETS: [f64; 11] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];

/// What is timed.
#[derive(Debug, Clone)]
pub struct Metrics {
    sync_duration: Histogram,
}

impl Metrics {
    /// Metrics that show up in a registry.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let options = HistogramOpts::new(
            "kubelet_pod_status_sync_duration_seconds",
            "Time from a change of a pod's status until the API server has it, however often it changed between.",
        );
        let sync_duration = Histogram::with_opts(options.buckets(SYNC_BUCKETS.to_vec()))?;
        registry.register(Box::new(sync_duration.clone()))?;
        Ok(Self { sync_duration })
    }

    /// A status was written that long after it changed.
    pub(crate) fn written(&self, after: Duration) {
        self.sync_duration.observe(after.as_secs_f64());
    }
}
