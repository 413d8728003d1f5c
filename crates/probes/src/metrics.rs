//! Metrics of probes under upstream's names. They are served at `/metrics/probes`.

use std::time::Duration;

use model::probe::{ProbeKind, ProbeVerdict};
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

/// Counts and times attempts.
#[derive(Debug, Clone)]
pub struct Metrics {
    attempts: IntCounterVec,
    durations: HistogramVec,
}

/// The labels of the series of a probe.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Series<'a> {
    pub(crate) kind: ProbeKind,
    pub(crate) container: &'a str,
    pub(crate) pod: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) pod_uid: &'a str,
}

impl Metrics {
    /// Metrics that show up in a registry.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let options = Opts::new(
            "prober_probe_total",
            "Cumulative number of a liveness, readiness or startup probe for a container by result.",
        );
        let labels = ["probe_type", "result", "container", "pod", "namespace", "pod_uid"];
        let attempts = IntCounterVec::new(options, &labels)?;
        registry.register(Box::new(attempts.clone()))?;
        let options = HistogramOpts::new(
            "prober_probe_duration_seconds",
            "Duration in seconds for a probe response.",
        );
        let labels = ["probe_type", "container", "pod", "namespace"];
        let durations = HistogramVec::new(options, &labels)?;
        registry.register(Box::new(durations.clone()))?;
        Ok(Self { attempts, durations })
    }

    /// Counts an attempt. Failures are not timed, as upstream has it.
    pub(crate) fn count(&self, of: Series<'_>, verdict: ProbeVerdict, took: Duration) {
        let result = match verdict {
            ProbeVerdict::Success | ProbeVerdict::Warning => "successful",
            ProbeVerdict::Failure => "failed",
            ProbeVerdict::Unknown => "unknown",
        };
        self.attempts.with_label_values(&of.labels(result)).inc();
        if result != "failed" {
            self.durations.with_label_values(&of.timed()).observe(took.as_secs_f64());
        }
    }

    /// Removes the series of a probe that has ended.
    pub(crate) fn remove(&self, of: Series<'_>) {
        for result in ["successful", "failed", "unknown"] {
            // A series that was never counted does not exist.
            self.attempts.remove_label_values(&of.labels(result)).ok();
        }
        self.durations.remove_label_values(&of.timed()).ok();
    }
}

impl<'a> Series<'a> {
    fn labels(&self, result: &'a str) -> [&'a str; 6] {
        let Self { kind, container, pod, namespace, pod_uid } = *self;
        [kind.as_str(), result, container, pod, namespace, pod_uid]
    }

    fn timed(&self) -> [&'a str; 4] {
        [self.kind.as_str(), self.container, self.pod, self.namespace]
    }
}
