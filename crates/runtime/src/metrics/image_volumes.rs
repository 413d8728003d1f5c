//! Metrics of image volumes.

use prometheus::{IntCounter, Registry};

use super::counter;

/// The metrics, by their upstream names.
#[derive(Debug, Clone)]
pub(crate) struct ImageVolumeCounts {
    requested: IntCounter,
    mounted: IntCounter,
    failed: IntCounter,
}

impl ImageVolumeCounts {
    /// Metrics in a registry.
    pub(crate) fn new(registry: &Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str| counter(registry, name, help);
        Ok(Self {
            requested: counter(
                "kubelet_image_volume_requested_total",
                "Number of requested image volumes.",
            )?,
            mounted: counter(
                "kubelet_image_volume_mounted_succeed_total",
                "Number of successful image volume mounts.",
            )?,
            failed: counter(
                "kubelet_image_volume_mounted_errors_total",
                "Number of failed image volume mounts.",
            )?,
        })
    }

    /// A container is created with this many image volumes.
    pub(crate) fn requested(&self, volumes: usize) {
        self.requested.inc_by(count(volumes));
    }

    /// The runtime mounted them.
    pub(crate) fn mounted(&self, mounts: usize) {
        self.mounted.inc_by(count(mounts));
    }

    /// The runtime could not mount them.
    pub(crate) fn failed(&self, mounts: usize) {
        self.failed.inc_by(count(mounts));
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
