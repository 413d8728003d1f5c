//! Metrics with upstream's names.

use std::time::Duration;

use prometheus::{DEFAULT_BUCKETS, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

/// The label of both metrics.
const SIGNAL: &str = "eviction_signal";

/// The metrics.
#[derive(Debug, Clone)]
pub struct EvictionMetrics {
    evictions: IntCounterVec,
    stats_age: HistogramVec,
}

impl EvictionMetrics {
    /// Registers the metrics.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let opts = Opts::new("kubelet_evictions", "Number of evicted pods, by eviction signal.");
        let evictions = IntCounterVec::new(opts, &[SIGNAL])?;
        let opts = HistogramOpts::new(
            "kubelet_eviction_stats_age_seconds",
            "Age of the statistics when a pod is evicted for them, by eviction signal.",
        );
        let stats_age = HistogramVec::new(opts.buckets(DEFAULT_BUCKETS.to_vec()), &[SIGNAL])?;
        registry.register(Box::new(evictions.clone()))?;
        registry.register(Box::new(stats_age.clone()))?;
        Ok(Self { evictions, stats_age })
    }

    pub(crate) fn evicted(&self, signal: &str) {
        self.evictions.with_label_values(&[signal]).inc();
    }

    pub(crate) fn observe_age(&self, signal: &str, age: Duration) {
        self.stats_age.with_label_values(&[signal]).observe(age.as_secs_f64());
    }
}
