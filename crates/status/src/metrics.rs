//! Metrics under upstream's names.

use std::time::Duration;

use prometheus::{Gauge, Histogram, HistogramOpts, Registry};

use crate::decide::StartDuration;

/// Upstream's buckets.
const SYNC: [f64; 11] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];
/// The buckets for the duration of a pod start.
pub const START_BUCKETS: [f64; 25] = [
    0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0,
    300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];

/// Metrics of statuses.
#[derive(Debug, Clone)]
pub struct Metrics {
    sync: Histogram,
    start_total: Histogram,
    start_own: Histogram,
    first_start: Gauge,
}

impl Metrics {
    /// Creates metrics and registers them.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let histogram = |name: &str, help: &str, buckets: &[f64]| {
            let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
            let histogram = Histogram::with_opts(options)?;
            registry.register(Box::new(histogram.clone()))?;
            Ok::<_, prometheus::Error>(histogram)
        };
        let first_start = Gauge::new(
            "kubelet_first_network_pod_start_sli_duration_seconds",
            "The same as kubelet_pod_start_sli_duration_seconds, of the first pod outside the host network.",
        )?;
        registry.register(Box::new(first_start.clone()))?;
        Ok(Self {
            sync: histogram(
                "kubelet_pod_status_sync_duration_seconds",
                "Time from a change of a pod's status until the API server has it, regardless of changes in between.",
                &SYNC,
            )?,
            start_total: histogram(
                "kubelet_pod_start_total_duration_seconds",
                "Time from the creation of a pod until the API server showed that all its containers run.",
                &START_BUCKETS,
            )?,
            start_own: histogram(
                "kubelet_pod_start_sli_duration_seconds",
                "The same without image pulls and init containers.",
                &START_BUCKETS,
            )?,
            first_start,
        })
    }

    /// Records a write that long after the change.
    pub(crate) fn written(&self, after: Duration) {
        self.sync.observe(after.as_secs_f64());
    }

    /// Records the start of a pod.
    pub(crate) fn started(&self, started: &StartDuration) {
        self.start_total.observe(started.total.as_secs_f64());
        let Some(own) = started.own else { return };
        let is_first = self.first_start.get() == 0.0;
        if started.has_network && is_first {
            self.first_start.set(own.as_secs_f64());
        }
        self.start_own.observe(own.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    // behaviour: STW-38
    #[test]
    fn start_durations_have_upstream_metric_names() {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry).unwrap();
        let started = |total, own: Option<u64>, has_network| StartDuration {
            total: Duration::from_secs(total),
            own: own.map(Duration::from_secs),
            has_network,
        };
        metrics.started(&started(9, None, true));
        metrics.started(&started(9, Some(7), false));
        metrics.started(&started(9, Some(5), true));
        metrics.started(&started(9, Some(3), true));
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            "kubelet_first_network_pod_start_sli_duration_seconds 5",
            "kubelet_pod_start_sli_duration_seconds_count 3",
            "kubelet_pod_start_sli_duration_seconds_sum 15",
            "kubelet_pod_start_sli_duration_seconds_bucket{le=\"6\"} 2",
            "kubelet_pod_start_total_duration_seconds_count 4",
            "kubelet_pod_start_total_duration_seconds_bucket{le=\"3600\"} 4",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
