//! Times how long pods that came take to be worked on and to run.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use model::ids::PodUid;
use prometheus::{Histogram, HistogramOpts, Registry};

use crate::decide::first_steps::{FirstSteps, first_steps};

/// The metrics, by their upstream names.
#[derive(Debug)]
pub(crate) struct PodMetrics {
    worker_start: Histogram,
    start: Histogram,
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
        registry.register(Box::new(worker_start.clone()))?;
        registry.register(Box::new(start.clone()))?;
        Ok(Self { worker_start, start, came: Mutex::default() })
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
        let FirstSteps { began, runs, is_over } = first_steps(phases);
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
