//! Times how long pods that came take to be worked on and to run.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use model::ids::PodUid;
use podspec::view;
use prometheus::{Histogram, HistogramOpts, IntCounterVec, Opts, Registry, exponential_buckets};

use crate::decide::first_steps::{FirstSteps, first_steps};
use crate::decide::terminations::{Termination, terminations};

/// The metrics, by their upstream names.
#[derive(Debug)]
pub(crate) struct PodMetrics {
    worker_start: Histogram,
    start: Histogram,
    containers: Histogram,
    terminated: IntCounterVec,
    /// When pods came that do not run yet. Never held across an await.
    came: Mutex<BTreeMap<PodUid, Timestamp>>,
}

impl PodMetrics {
    /// Metrics that show up in a registry.
    pub(crate) fn new(registry: &Registry) -> prometheus::Result<Self> {
        let worker_start = Histogram::with_opts(HistogramOpts::new(
            "kubelet_pod_worker_start_duration_seconds",
            "Time from when a pod came until its worker began.",
        ))?;
        let start = HistogramOpts::new(
            "kubelet_pod_start_duration_seconds",
            "Time from when a pod came until it ran.",
        );
        let start = Histogram::with_opts(start.buckets(status::START_BUCKETS.to_vec()))?;
        let containers = HistogramOpts::new(
            "kubelet_containers_per_pod_count",
            "Number of containers of each pod that is worked on.",
        );
        let containers =
            Histogram::with_opts(containers.buckets(exponential_buckets(1.0, 2.0, 5)?))?;
        let terminated = Opts::new(
            "kubelet_terminated_containers_total",
            "Number of containers that have ended, by what they were for, how and why.",
        );
        let labels = ["container_type", "exit_code", "reason"];
        let terminated = IntCounterVec::new(terminated, &labels)?;
        for times in [&worker_start, &start, &containers] {
            registry.register(Box::new(times.clone()))?;
        }
        registry.register(Box::new(terminated.clone()))?;
        Ok(Self { worker_start, start, containers, terminated, came: Mutex::default() })
    }

    /// A pod has another status than before, or its first one.
    pub(crate) fn is_now(&self, pod: &Pod, before: Option<&PodStatus>, now: &PodStatus) {
        if before.is_none() {
            let count = u32::try_from(view::containers(pod).len()).unwrap_or(u32::MAX);
            self.containers.observe(count.into());
        }
        for Termination { kind, exit_code, reason } in terminations(before, now) {
            let exit_code = exit_code.to_string();
            self.terminated.with_label_values(&[kind, exit_code.as_str(), reason]).inc();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PodUid, Timestamp>> {
        self.came.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A pod came that was not there.
    pub(crate) fn came(&self, uid: &PodUid, now: Timestamp) {
        self.lock().entry(uid.clone()).or_insert(now);
    }

    /// A pod is gone.
    pub(crate) fn went(&self, uid: &PodUid) {
        self.lock().remove(uid);
    }

    /// A pod has another phase than before, or its first one.
    pub(crate) fn told(&self, uid: &PodUid, phases: (Option<&str>, Option<&str>), now: Timestamp) {
        let FirstSteps { began, runs, is_over } = first_steps(phases.0, phases.1);
        let came = if is_over { self.lock().remove(uid) } else { self.lock().get(uid).copied() };
        let Some(came) = came else { return };
        let took = Duration::try_from(now.duration_since(came)).unwrap_or_default().as_secs_f64();
        if began {
            self.worker_start.observe(took);
        }
        if runs {
            self.start.observe(took);
        }
    }
}
