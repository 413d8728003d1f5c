//! How long it takes to change what pods may use.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, Registry};

/// Milliseconds, as upstream has them.
const BUCKETS: [f64; 14] = [
    10.0, 50.0, 100.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0, 20_000.0, 30_000.0, 60_000.0,
    120_000.0, 300_000.0, 600_000.0,
];

/// The metrics, by their upstream names.
#[derive(Debug, Clone)]
pub struct Metrics {
    resizes: HistogramVec,
}

impl Metrics {
    /// Metrics that show up in a registry.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let name = "kubelet_pod_resize_duration_milliseconds";
        let help = "Duration in milliseconds to actuate a pod resize";
        let wanted = HistogramOpts::new(name, help).buckets(BUCKETS.to_vec());
        let resizes = HistogramVec::new(wanted, &["success"])?;
        registry.register(Box::new(resizes.clone()))?;
        Ok(Self { resizes })
    }

    /// It was tried to give a pod other resources, which took so long.
    pub(crate) fn resized(&self, took: Duration, success: bool) {
        let success = if success { "true" } else { "false" };
        self.resizes.with_label_values(&[success]).observe(took.as_secs_f64() * 1000.0);
    }
}
