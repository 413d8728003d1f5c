//! The agent's metrics in the text format of Prometheus.

use prometheus::{Registry, TextEncoder};
use server::MetricsText;

/// Renders all metrics of a registry.
#[derive(Debug)]
pub(crate) struct Metrics(pub(crate) Registry);

impl MetricsText for Metrics {
    fn text(&self) -> String {
        // Only a metric with labels of different kinds under one name cannot be written, and the
        // registry has refused those.
        TextEncoder::new().encode_to_string(&self.0.gather()).unwrap_or_default()
    }
}
