//! Counts pods that ask for other resources, and what comes of it.

use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// What made the agent look again at resizes that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// A pod takes less than it did.
    PodResized,
    /// A pod changed.
    PodUpdated,
    /// Pods came.
    PodsAdded,
    /// Pods went.
    PodsRemoved,
    /// A pod ended.
    PodTerminated,
    /// Nothing but time.
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

/// How many resizes there are.
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
    /// Metrics that show up in a registry.
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

    /// A pod asks for something else.
    pub(crate) fn requested(&self, request: crate::decide::resize::Request) {
        let (resource, requirement, operation) = request;
        self.requested.with_label_values(&[resource, requirement, operation]).inc();
    }

    /// A pod asks for what can never be.
    pub(crate) fn infeasible(&self, detail: &str) {
        self.infeasible.with_label_values(&[detail]).inc();
    }

    /// A pod that waited is given what it asks for.
    pub(crate) fn deferred_accepted(&self, trigger: Trigger) {
        self.deferred_accepted.with_label_values(&[trigger.label()]).inc();
    }

    /// So many there are now. What there is none of is not told, as upstream has it.
    pub(crate) fn there_are(&self, counts: Counts) {
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
