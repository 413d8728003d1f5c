//! Measures how long pods take to start, and counts terminated containers.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use podspec::view;
use prometheus::{Histogram, HistogramOpts, IntCounterVec, Opts, Registry, exponential_buckets};

use crate::decide::{FirstSteps, Termination, terminations};

/// The metrics, by their upstream names.
#[derive(Debug)]
pub struct PodMetrics {
    worker_start: Histogram,
    start: Histogram,
    containers: Histogram,
    terminated: IntCounterVec,
}

impl PodMetrics {
    /// Registers the metrics.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let worker_start = Histogram::with_opts(HistogramOpts::new(
            "kubelet_pod_worker_start_duration_seconds",
            "Time from the arrival of a pod until its worker started.",
        ))?;
        let start = HistogramOpts::new(
            "kubelet_pod_start_duration_seconds",
            "Time from the arrival of a pod until it ran.",
        );
        let start = Histogram::with_opts(start.buckets(crate::START_BUCKETS.to_vec()))?;
        let containers = HistogramOpts::new(
            "kubelet_containers_per_pod_count",
            "Number of containers of each pod that is processed.",
        );
        let containers =
            Histogram::with_opts(containers.buckets(exponential_buckets(1.0, 2.0, 5)?))?;
        let terminated = Opts::new(
            "kubelet_terminated_containers_total",
            "Number of terminated containers, by type, exit code and reason.",
        );
        let labels = ["container_type", "exit_code", "reason"];
        let terminated = IntCounterVec::new(terminated, &labels)?;
        for times in [&worker_start, &start, &containers] {
            registry.register(Box::new(times.clone()))?;
        }
        registry.register(Box::new(terminated.clone()))?;
        Ok(Self { worker_start, start, containers, terminated })
    }

    /// Counts the containers of a pod with its first status, and containers that terminated since the previous status.
    pub(crate) fn observe_status(&self, pod: &Pod, before: Option<&PodStatus>, now: &PodStatus) {
        if before.is_none() {
            let count = u32::try_from(view::containers(pod).len()).unwrap_or(u32::MAX);
            self.containers.observe(count.into());
        }
        for Termination { kind, exit_code, reason } in terminations(before, now) {
            let exit_code = exit_code.to_string();
            self.terminated.with_label_values(&[kind, exit_code.as_str(), reason]).inc();
        }
    }

    /// Records steps of a pod's start, at that time after it arrived.
    pub(crate) fn observe_start(&self, steps: FirstSteps, took: Duration) {
        if steps.began {
            self.worker_start.observe(took.as_secs_f64());
        }
        if steps.runs {
            self.start.observe(took.as_secs_f64());
        }
    }
}
