//! Metrics under upstream's names.

use std::collections::BTreeMap;
use std::time::Duration;

use model::volume::Plugin;
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntGauge, IntGaugeVec, Opts, Registry};
use tokio::time::Instant;

/// The metrics.
#[derive(Debug, Clone)]
pub struct Metrics {
    operations: HistogramVec,
    reconstructed: IntCounter,
    reconstruct_errors: IntCounter,
    volumes: IntGaugeVec,
    orphans: IntGauge,
    orphan_errors: IntGauge,
}

/// The volumes of all pods, by plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct VolumeCounts {
    /// Volumes that are mounted, or may be.
    pub(crate) actual: BTreeMap<Plugin, i64>,
    /// Volumes that pods use.
    pub(crate) desired: BTreeMap<Plugin, i64>,
}

impl Metrics {
    /// Metrics that show up in a registry.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let options =
            HistogramOpts::new("storage_operation_duration_seconds", "Storage operation duration")
                .buckets(vec![
                    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0,
                ]);
        let labels = ["migrated", "operation_name", "status", "volume_plugin"];
        let operations = HistogramVec::new(options, &labels)?;
        registry.register(Box::new(operations.clone()))?;
        let counter = |name: &str, help: &str| {
            let counter = IntCounter::new(name, help)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let gauge = |name: &str, help: &str| {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        let options =
            Opts::new("volume_manager_total_volumes", "Number of volumes in Volume Manager");
        let volumes = IntGaugeVec::new(options, &["plugin_name", "state"])?;
        registry.register(Box::new(volumes.clone()))?;
        Ok(Self {
            operations,
            volumes,
            reconstructed: counter(
                "reconstruct_volume_operations_total",
                "Number of volumes of earlier agents that were found on the host.",
            )?,
            reconstruct_errors: counter(
                "reconstruct_volume_operations_errors_total",
                "Number of failed searches for volumes of earlier agents.",
            )?,
            orphans: gauge(
                "kubelet_orphan_pod_cleaned_volumes",
                "Number of orphaned pods whose volumes are being cleaned.",
            )?,
            orphan_errors: gauge(
                "kubelet_orphan_pod_cleaned_volumes_errors",
                "Number of orphaned pods whose volumes failed to be cleaned.",
            )?,
        })
    }

    /// The host was searched for volumes of a pod.
    pub(crate) fn reconstructed(&self, found: Option<usize>) {
        if let Some(volumes) = found {
            self.reconstructed.inc_by(u64::try_from(volumes).unwrap_or_default());
        } else {
            self.reconstructed.inc();
            self.reconstruct_errors.inc();
        }
    }

    /// The volumes of all pods.
    pub(crate) fn set_volumes(&self, counts: &VolumeCounts) {
        for plugin in Plugin::ALL {
            let states = [
                ("actual_state_of_world", &counts.actual),
                ("desired_state_of_world", &counts.desired),
            ];
            for (state, by_plugin) in states {
                let gauge = self.volumes.with_label_values(&[plugin.name(), state]);
                gauge.set(by_plugin.get(&plugin).copied().unwrap_or_default());
            }
        }
    }

    /// How many orphaned pods are being cleaned, and for how many that failed.
    pub(crate) fn set_orphans(&self, pods: usize, failed: usize) {
        self.orphans.set(i64::try_from(pods).unwrap_or(i64::MAX));
        self.orphan_errors.set(i64::try_from(failed).unwrap_or(i64::MAX));
    }

    /// An operation begins.
    pub(crate) fn begin(&self, plugin: Plugin, operation: &'static str) -> Timing<'_> {
        Timing { metrics: self, plugin, operation, began: Instant::now() }
    }

    fn ended(&self, timing: &Timing<'_>, status: &str, took: Duration) {
        let labels = ["false", timing.operation, status, timing.plugin.name()];
        self.operations.with_label_values(&labels).observe(took.as_secs_f64());
    }
}

/// An operation under way.
#[derive(Debug)]
pub(crate) struct Timing<'a> {
    metrics: &'a Metrics,
    plugin: Plugin,
    operation: &'static str,
    began: Instant,
}

impl Timing<'_> {
    /// It has ended.
    pub(crate) fn ended(self, worked: bool) {
        let status = if worked { "success" } else { "fail-unknown" };
        self.metrics.ended(&self, status, self.began.elapsed());
    }
}
