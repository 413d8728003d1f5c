//! Metrics under upstream's names.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntGaugeVec, Opts, Registry};

use crate::decide::worker::Working;

/// Metrics of pod workers.
#[derive(Debug, Clone)]
pub struct Metrics {
    worker: HistogramVec,
    working: IntGaugeVec,
}

impl Metrics {
    /// Creates metrics and registers them.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let options = HistogramOpts::new(
            "kubelet_pod_worker_duration_seconds",
            "Time from when a change of a pod was requested from its worker until it is done, by kind of change.",
        );
        let worker = HistogramVec::new(options, &["operation_type"])?;
        registry.register(Box::new(worker.clone()))?;
        let options = Opts::new(
            "kubelet_working_pods",
            "Number of pods that have a worker, by lifecycle, by whether the pod is desired, orphaned or known \
            to the runtime only, and by whether it is static.",
        );
        let working = IntGaugeVec::new(options, &["lifecycle", "config", "static"])?;
        registry.register(Box::new(working.clone()))?;
        for one in Working::all() {
            working.with_label_values(&one.labels()).set(0);
        }
        Ok(Self { worker, working })
    }

    /// Counts a pod under its new lifecycle instead of the old one.
    pub(crate) fn counted(&self, before: Option<Working>, now: Option<Working>) {
        if before == now {
            return;
        }
        if let Some(before) = before {
            self.working.with_label_values(&before.labels()).dec();
        }
        if let Some(now) = now {
            self.working.with_label_values(&now.labels()).inc();
        }
    }

    pub(crate) fn worked(&self, requested: &str, took: Duration) {
        self.worker.with_label_values(&[requested]).observe(took.as_secs_f64());
    }
}
