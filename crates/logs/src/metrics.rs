//! Metrics of log rotation.

use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};

use crate::shared::Shared;

/// The metrics.
#[derive(Debug, Clone)]
pub struct LogMetrics {
    registry: Registry,
    operations: IntCounterVec,
}

impl LogMetrics {
    /// Registers the metrics.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let operations = Opts::new(
            "ferrolet_log_operations_total",
            "Rotations and compressions of container logs, by their result.",
        );
        let operations = IntCounterVec::new(operations, &["operation", "result"])?;
        registry.register(Box::new(operations.clone()))?;
        Ok(Self { registry: registry.clone(), operations })
    }

    pub(crate) fn rotated(&self, succeeded: bool) {
        self.ended("rotate", succeeded);
    }

    pub(crate) fn compressed(&self, succeeded: bool) {
        self.ended("compress", succeeded);
    }

    fn ended(&self, operation: &str, succeeded: bool) {
        let result = if succeeded { "success" } else { "error" };
        self.operations.with_label_values(&[operation, result]).inc();
    }

    /// Exports the disk usage of logs from now on.
    pub(crate) fn show(&self, shared: &Arc<Shared>) -> prometheus::Result<()> {
        let used = Opts::new(
            "kubelet_container_log_filesystem_used_bytes",
            "Bytes used by the container's logs on the filesystem.",
        );
        let used = IntGaugeVec::new(used, &["uid", "namespace", "pod", "container"])?;
        self.registry.register(Box::new(UsedBytes { used, shared: Arc::clone(shared) }))
    }
}

/// Computed when metrics are scraped.
struct UsedBytes {
    used: IntGaugeVec,
    shared: Arc<Shared>,
}

impl Collector for UsedBytes {
    fn desc(&self) -> Vec<&Desc> {
        self.used.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.used.reset();
        for log in self.shared.table().used() {
            let (namespace, pod) = (&*log.pod.namespace, &*log.pod.name);
            let labels = [log.uid.as_str(), namespace, pod, &*log.container];
            let bytes = i64::try_from(log.bytes()).unwrap_or(i64::MAX);
            self.used.with_label_values(&labels).set(bytes);
        }
        self.used.collect()
    }
}
