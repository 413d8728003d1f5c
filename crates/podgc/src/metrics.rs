//! Metrics: upstream's names if the meaning is the same.

mod queue;

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
};

pub(crate) use self::queue::QueueMetrics;
use crate::plan::Pass;

/// The metrics of the controller.
#[derive(Debug, Clone)]
pub struct Metrics {
    deletions: IntCounterVec,
    errors: IntCounterVec,
    planned: IntCounterVec,
    put_off: IntCounter,
    events_dropped: IntCounter,
    queue: QueueMetrics,
    cycle: Histogram,
    last_cycle: Gauge,
    pods: IntGauge,
    terminated: IntGauge,
    missing_nodes: IntGauge,
    concurrency: IntGauge,
    leads: GaugeVec,
    slow_paths: IntCounterVec,
    running: GaugeVec,
}

/// Registers a metric.
fn registered<T: Collector + Clone + 'static>(
    registry: &Registry,
    metric: Result<T, prometheus::Error>,
) -> Result<T, prometheus::Error> {
    let metric = metric?;
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

impl Metrics {
    /// Registers all metrics.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let by_pod = |name: &str, help: &str| {
            let labels = &["namespace", "reason"];
            registered(registry, IntCounterVec::new(Opts::new(name, help), labels))
        };
        let count = |name: &str, help: &str| registered(registry, IntCounter::new(name, help));
        let level = |name: &str, help: &str| registered(registry, IntGauge::new(name, help));
        let state = |name: &str, help: &str, labels: &[&str]| {
            registered(registry, GaugeVec::new(Opts::new(name, help), labels))
        };
        let last = "ferrolet_pod_gc_last_cycle_timestamp_seconds";
        let last_cycle = Gauge::new(last, "The end of the last cycle.");
        let cycle = HistogramOpts::new("ferrolet_pod_gc_cycle_seconds", "Duration of cycles.")
            .buckets(vec![0.000_1, 0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0]);
        let slow = "leader_election_slowpath_total";
        let slow = Opts::new(slow, "Renewals of a lease that another process had changed.");
        Ok(Self {
            deletions: by_pod(
                "pod_gc_collector_force_delete_pods_total",
                "Number of attempted forced deletions of pods since the Pod GC controller started.",
            )?,
            errors: by_pod(
                "pod_gc_collector_force_delete_pod_errors_total",
                "Number of failed forced deletions of pods since the Pod GC controller started.",
            )?,
            planned: by_pod(
                "ferrolet_pod_gc_dry_run_deletions_total",
                "Pods that would have been deleted without --dry-run.",
            )?,
            put_off: count(
                "ferrolet_pod_gc_put_off_total",
                "Deletions deferred to a later cycle by --max-deletion-percent.",
            )?,
            events_dropped: count(
                "ferrolet_pod_gc_events_dropped_total",
                "Deletions whose event could not be written, or not in time.",
            )?,
            queue: QueueMetrics::new(registry)?,
            cycle: registered(registry, Histogram::with_opts(cycle))?,
            last_cycle: registered(registry, last_cycle)?,
            pods: level("ferrolet_pod_gc_pods", "Pods in the cluster.")?,
            terminated: level("ferrolet_pod_gc_terminated_pods", "Terminated pods.")?,
            missing_nodes: level(
                "ferrolet_pod_gc_missing_nodes",
                "Node names of pods without an existing node.",
            )?,
            concurrency: level("ferrolet_pod_gc_concurrency", "Limit of concurrent deletions.")?,
            leads: state(
                "leader_election_master_status",
                "Whether this process is the leader: 1 for yes, 0 for no.",
                &["name"],
            )?,
            slow_paths: registered(registry, IntCounterVec::new(slow, &["name"]))?,
            running: state(
                "running_managed_controllers",
                "Whether a controller is running: 1 for yes, 0 for no.",
                &["name", "manager"],
            )?,
        })
    }

    /// Counts an attempted deletion and its result.
    pub(crate) fn tried(&self, namespace: &str, pass: Pass, worked: bool) {
        let labels = [namespace, pass.label()];
        self.deletions.with_label_values(&labels).inc();
        if !worked {
            self.errors.with_label_values(&labels).inc();
        }
    }

    pub(crate) fn would_delete(&self, namespace: &str, pass: Pass) {
        self.planned.with_label_values(&[namespace, pass.label()]).inc();
    }

    pub(crate) fn put_off(&self, count: usize) {
        self.put_off.inc_by(count as u64);
    }

    pub(crate) fn events_dropped(&self, count: usize) {
        self.events_dropped.inc_by(count as u64);
    }

    /// The metrics of the queue of missing nodes.
    pub(crate) fn queue(&self) -> &QueueMetrics {
        &self.queue
    }

    /// The lease differed from the last known one.
    pub(crate) fn slow_path(&self, name: &str) {
        self.slow_paths.with_label_values(&[name]).inc();
    }

    pub(crate) fn cycled(&self, took: Duration, now: jiff::Timestamp) {
        self.cycle.observe(took.as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "seconds of this era")]
        self.last_cycle.set(now.as_second() as f64);
    }

    pub(crate) fn sizes(&self, pods: usize, terminated: usize, missing_nodes: usize) {
        self.pods.set(whole(pods));
        self.terminated.set(whole(terminated));
        self.missing_nodes.set(whole(missing_nodes));
    }

    pub(crate) fn concurrency(&self, limit: usize) {
        self.concurrency.set(whole(limit));
    }

    /// Sets whether the controller runs.
    pub(crate) fn runs(&self, runs: bool) {
        let labels = ["pod-garbage-collector-controller", "ferrolet-pod-gc"];
        self.running.with_label_values(&labels).set(f64::from(u8::from(runs)));
    }

    /// Sets whether this process leads the election of that name.
    pub(crate) fn leads(&self, name: &str, leads: bool) {
        self.leads.with_label_values(&[name]).set(f64::from(u8::from(leads)));
    }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
