//! Call metrics with upstream's names.

use prometheus::{IntCounterVec, Opts, Registry};

/// The API versions.
pub(crate) const V1: &str = "v1";
pub(crate) const V1ALPHA1: &str = "v1alpha1";

/// The labels of calls.
const LABELS: [&str; 1] = ["server_api_version"];

/// The metrics. Upstream has two more, for failed lists and allocatable resources: neither call fails, here or
/// in upstream.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub(crate) requests: IntCounterVec,
    pub(crate) lists: IntCounterVec,
    pub(crate) gets: IntCounterVec,
    pub(crate) gets_of_allocatable: IntCounterVec,
    pub(crate) failed_gets: IntCounterVec,
}

impl Metrics {
    /// Registers the metrics.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str| {
            let name = format!("kubelet_pod_resources_endpoint_{name}");
            let help = format!("{help} Broken down by server api version.");
            let counter = IntCounterVec::new(Opts::new(name, help), &LABELS)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        Ok(Self {
            requests: counter(
                "requests_total",
                "Cumulative number of requests to the PodResource endpoint.",
            )?,
            lists: counter(
                "requests_list",
                "Number of requests to the PodResource List endpoint.",
            )?,
            gets: counter("requests_get", "Number of requests to the PodResource Get endpoint.")?,
            gets_of_allocatable: counter(
                "requests_get_allocatable",
                "Number of requests to the PodResource GetAllocatableResources endpoint.",
            )?,
            failed_gets: counter(
                "errors_get",
                "Number of requests to the PodResource Get endpoint which returned error.",
            )?,
        })
    }
}
