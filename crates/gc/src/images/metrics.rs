//! Metrics with upstream's names.

use prometheus::{IntCounterVec, Opts, Registry};

/// Why an image was removed, as the metric's label.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reason {
    Age,
    Space,
}

/// The metrics.
#[derive(Debug, Clone)]
pub struct ImageGcMetrics {
    collected: IntCounterVec,
}

impl ImageGcMetrics {
    /// Metrics that are added to a registry.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let opts = Opts::new(
            "kubelet_image_garbage_collected_total",
            "Number of images that garbage collection removed, by reason.",
        );
        let collected = IntCounterVec::new(opts, &["reason"])?;
        registry.register(Box::new(collected.clone()))?;
        Ok(Self { collected })
    }

    pub(crate) fn removed(&self, reason: Reason) {
        let reason = match reason {
            Reason::Age => "age",
            Reason::Space => "space",
        };
        self.collected.with_label_values(&[reason]).inc();
    }
}
