//! Metrics of the runtime.

mod attempts;
mod image_volumes;

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry};

use self::attempts::Attempts;
use self::image_volumes::ImageVolumeCounts;
use crate::decide::{Role, size_class};

/// Milliseconds, like upstream.
const RESIZE_BUCKETS: [f64; 14] = [
    10.0, 50.0, 100.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0, 20_000.0, 30_000.0, 60_000.0,
    120_000.0, 300_000.0, 600_000.0,
];
/// Seconds, like upstream.
const PULL_BUCKETS: [f64; 18] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0, 600.0, 900.0,
    1200.0, 1800.0, 2700.0, 3600.0,
];

/// The metrics, by their upstream names.
#[derive(Debug, Clone)]
pub struct Metrics {
    resizes: HistogramVec,
    pulls: HistogramVec,
    pods: IntCounter,
    pod_errors: IntCounter,
    containers: IntCounterVec,
    container_errors: IntCounterVec,
    /// Attempts.
    pub(crate) attempts: Attempts,
    /// Image volumes.
    pub(crate) image_volumes: ImageVolumeCounts,
}

/// A counter in a registry.
fn counter(registry: &Registry, name: &str, help: &str) -> prometheus::Result<IntCounter> {
    let counter = IntCounter::new(name, help)?;
    registry.register(Box::new(counter.clone()))?;
    Ok(counter)
}

/// Counters by labels in a registry.
fn counters(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> prometheus::Result<IntCounterVec> {
    let counters = IntCounterVec::new(Opts::new(name, help), labels)?;
    registry.register(Box::new(counters.clone()))?;
    Ok(counters)
}

impl Metrics {
    /// Metrics in a registry.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let timed = |name: &str, help: &str, label: &str, buckets: &[f64]| {
            let wanted = HistogramOpts::new(name, help).buckets(buckets.to_vec());
            let timed = HistogramVec::new(wanted, &[label])?;
            registry.register(Box::new(timed.clone()))?;
            Ok::<_, prometheus::Error>(timed)
        };
        let counter = |name: &str, help: &str| counter(registry, name, help);
        let counters =
            |name: &str, help: &str, labels: &[&str]| counters(registry, name, help, labels);
        Ok(Self {
            resizes: timed(
                "kubelet_pod_resize_duration_milliseconds",
                "Duration in milliseconds to actuate a pod resize",
                "success",
                &RESIZE_BUCKETS,
            )?,
            pulls: timed(
                "kubelet_image_pull_duration_seconds",
                "Time to pull an image, including the wait for other pulls, by image size.",
                "image_size_in_bytes",
                &PULL_BUCKETS,
            )?,
            pods: counter(
                "kubelet_started_pods_total",
                "Number of attempts to create a pod sandbox.",
            )?,
            pod_errors: counter(
                "kubelet_started_pods_errors_total",
                "Number of failed attempts to create a pod sandbox.",
            )?,
            containers: counters(
                "kubelet_started_containers_total",
                "Number of attempts to start a container.",
                &["container_type"],
            )?,
            container_errors: counters(
                "kubelet_started_containers_errors_total",
                "Number of failed attempts to start a container, by reason.",
                &["container_type", "code"],
            )?,
            attempts: Attempts::new(registry)?,
            image_volumes: ImageVolumeCounts::new(registry)?,
        })
    }

    /// A resize of a pod took this long.
    pub(crate) fn resized(&self, took: Duration, success: bool) {
        let success = if success { "true" } else { "false" };
        self.resizes.with_label_values(&[success]).observe(took.as_secs_f64() * 1000.0);
    }

    /// The pull of an image with this many bytes took this long.
    pub(crate) fn pulled(&self, took: Duration, bytes: u64) {
        self.pulls.with_label_values(&[size_class(bytes)]).observe(took.as_secs_f64());
    }

    /// A pod's sandbox is about to be created.
    pub(crate) fn pod_starts(&self) {
        self.pods.inc();
    }

    /// The creation of a pod's sandbox failed.
    pub(crate) fn pod_did_not_start(&self) {
        self.pod_errors.inc();
    }

    /// A container is about to be started.
    pub(crate) fn container_starts(&self, role: Role) {
        self.containers.with_label_values(&[kind(role)]).inc();
    }

    /// The start of a container failed, for this reason.
    pub(crate) fn container_did_not_start(&self, role: Role, reason: &str) {
        self.container_errors.with_label_values(&[kind(role), reason]).inc();
    }
}

fn kind(role: Role) -> &'static str {
    match role {
        Role::Regular => "container",
        Role::Init | Role::Sidecar => "init_container",
        Role::Ephemeral => "ephemeral_container",
    }
}
