//! Metrics under upstream's names.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntGaugeVec, Opts, Registry};

use crate::decide::worker::Working;

/// What is timed and counted.
#[derive(Debug, Clone)]
pub struct Metrics {
    worker: HistogramVec,
    working: IntGaugeVec,
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
        let options = Opts::new(
            "kubelet_working_pods",
            "Number of pods that have a worker, by how far they are, by whether a source wants them, nobody \
             any more, or only the runtime knows them, and by whether they are static.",
        );
        let working = IntGaugeVec::new(options, &["lifecycle", "config", "static"])?;
        registry.register(Box::new(working.clone()))?;
        for one in Working::all() {
            working.with_label_values(&one.labels()).set(0);
        }
        Ok(Self { worker, working })
    }

    /// A pod is counted as something else than before.
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

    pub(crate) fn worked(&self, asked: &str, took: Duration) {
        self.worker.with_label_values(&[asked]).observe(took.as_secs_f64());
    }
}
