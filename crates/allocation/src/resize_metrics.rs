//! Counts resizes and their outcomes.

use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// The trigger of a new decision about deferred resizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// A pod uses fewer resources.
    PodResized,
    /// A pod was updated.
    PodUpdated,
    /// Pods were added.
    PodsAdded,
    /// Pods were removed.
    PodsRemoved,
    /// A pod terminated.
    PodTerminated,
    /// Periodic.
    Periodic,
}

impl Trigger {
    fn label(self) -> &'static str {
        match self {
            Self::PodResized => "pod_resized",
            Self::PodUpdated => "pod_updated",
            Self::PodsAdded => "pods_added",
            Self::PodsRemoved => "pods_removed",
            Self::PodTerminated => "pod_terminated",
            Self::Periodic => "periodic_retry",
        }
    }
}

/// The numbers of resizes by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) deferred: usize,
    pub(crate) infeasible: usize,
    pub(crate) in_progress: usize,
}

/// The metrics, by their upstream names.
#[derive(Debug, Clone)]
pub struct ResizeMetrics {
    requested: IntCounterVec,
    pending: IntGaugeVec,
    infeasible: IntCounterVec,
    in_progress: IntGauge,
    deferred_accepted: IntCounterVec,
}

impl ResizeMetrics {
    /// Creates metrics and registers them.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let pending =
            Opts::new("kubelet_pod_pending_resizes", "Number of pending resizes for pods.");
        let pending = IntGaugeVec::new(pending, &["reason"])?;
        registry.register(Box::new(pending.clone()))?;
        let help = "Number of in-progress resizes for pods.";
        let in_progress = IntGauge::new("kubelet_pod_in_progress_resizes", help)?;
        registry.register(Box::new(in_progress.clone()))?;
        Ok(Self {
            requested: counter(
                "kubelet_container_requested_resizes_total",
                "Number of requested resizes, counted at the container level.",
                &["resource", "requirement", "operation"],
            )?,
            pending,
            infeasible: counter(
                "kubelet_pod_infeasible_resizes_total",
                "Number of infeasible resizes for pods.",
                &["reason_detail"],
            )?,
            in_progress,
            deferred_accepted: counter(
                "kubelet_pod_deferred_accepted_resizes_total",
                "Cumulative number of resizes that were accepted after being deferred.",
                &["retry_trigger"],
            )?,
        })
    }

    /// Counts a requested change.
    pub(crate) fn requested(&self, request: crate::decide::resize::Request) {
        let (resource, requirement, operation) = request;
        self.requested.with_label_values(&[resource, requirement, operation]).inc();
    }

    /// Counts an infeasible request.
    pub(crate) fn infeasible(&self, detail: &str) {
        self.infeasible.with_label_values(&[detail]).inc();
    }

    /// Counts a deferred request that was accepted.
    pub(crate) fn deferred_accepted(&self, trigger: Trigger) {
        self.deferred_accepted.with_label_values(&[trigger.label()]).inc();
    }

    /// Sets the current numbers. States without a resize have no series, like upstream.
    pub(crate) fn set_counts(&self, counts: Counts) {
        self.in_progress.set(number(counts.in_progress));
        self.pending.reset();
        for (reason, count) in [("deferred", counts.deferred), ("infeasible", counts.infeasible)] {
            if count > 0 {
                self.pending.with_label_values(&[reason]).set(number(count));
            }
        }
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
