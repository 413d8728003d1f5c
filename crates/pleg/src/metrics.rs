//! Metrics under upstream's names.

use std::time::Duration;

use model::observed::{ContainerState, RuntimePod, SandboxState};
use prometheus::{
    Gauge, Histogram, HistogramOpts, IntCounter, IntGauge, IntGaugeVec, Opts, Registry,
};

/// The metrics of the PLEG.
#[derive(Debug, Clone)]
pub struct Metrics {
    relist_duration: Histogram,
    relist_interval: Histogram,
    pod_relist_duration: Histogram,
    last_seen: Gauge,
    running_pods: IntGauge,
    running_containers: IntGaugeVec,
    connections: IntCounter,
    connection_errors: IntCounter,
    connection_latency: Histogram,
}

/// The share of a pod in the gauges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    running: bool,
    containers: [i64; 4],
}

const STATES: [(&str, ContainerState); 4] = [
    ("created", ContainerState::Created),
    ("running", ContainerState::Running),
    ("exited", ContainerState::Exited),
    ("unknown", ContainerState::Unknown),
];

impl From<&RuntimePod> for Counts {
    fn from(pod: &RuntimePod) -> Self {
        let running = pod.sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready);
        let containers = STATES.map(|(_, state)| {
            let count = pod.containers.iter().filter(|container| container.state == state).count();
            i64::try_from(count).unwrap_or(i64::MAX)
        });
        Self { running, containers }
    }
}

impl Metrics {
    /// Creates the metrics and registers them.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let histogram = |name: &str, help: &str| {
            let histogram = Histogram::with_opts(HistogramOpts::new(name, help))?;
            registry.register(Box::new(histogram.clone()))?;
            Ok::<_, prometheus::Error>(histogram)
        };
        let counter = |name: &str, help: &str| {
            let counter = IntCounter::new(name, help)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let last_seen = Gauge::new(
            "kubelet_pleg_last_seen_seconds",
            "Time of the last successful relist, in seconds since the epoch.",
        )?;
        registry.register(Box::new(last_seen.clone()))?;
        let running_pods =
            IntGauge::new("kubelet_running_pods", "Number of pods with a ready sandbox.")?;
        registry.register(Box::new(running_pods.clone()))?;
        let containers = Opts::new("kubelet_running_containers", "Number of containers by state.");
        let running_containers = IntGaugeVec::new(containers, &["container_state"])?;
        registry.register(Box::new(running_containers.clone()))?;
        for (state, _) in STATES {
            running_containers.with_label_values(&[state]).set(0);
        }
        // Events are kept by pod and cannot overflow; the counter exists for dashboards.
        counter("kubelet_pleg_discard_events", "Number of lifecycle events that were dropped.")?;
        Ok(Self {
            relist_duration: histogram(
                "kubelet_pleg_relist_duration_seconds",
                "Time that listing all pods took.",
            )?,
            relist_interval: histogram(
                "kubelet_pleg_relist_interval_seconds",
                "Time between two relists.",
            )?,
            pod_relist_duration: histogram(
                "kubelet_pleg_pod_relist_duration_seconds",
                "Time that listing one pod took.",
            )?,
            last_seen,
            running_pods,
            running_containers,
            connections: counter(
                "kubelet_evented_pleg_connection_success_count",
                "Number of times the runtime's event stream was opened.",
            )?,
            connection_errors: counter(
                "kubelet_evented_pleg_connection_error_count",
                "Number of times the runtime's event stream broke or did not open.",
            )?,
            connection_latency: histogram(
                "kubelet_evented_pleg_connection_latency_seconds",
                "Time that opening the runtime's event stream took.",
            )?,
        })
    }

    pub(crate) fn relisted(&self, took: Duration, since_last: Option<Duration>) {
        self.relist_duration.observe(took.as_secs_f64());
        if let Some(interval) = since_last {
            self.relist_interval.observe(interval.as_secs_f64());
        }
    }

    pub(crate) fn seen_at(&self, seconds: f64) {
        self.last_seen.set(seconds);
    }

    pub(crate) fn pod_listed(&self, took: Duration) {
        self.pod_relist_duration.observe(took.as_secs_f64());
    }

    pub(crate) fn opened(&self, took: Duration) {
        self.connections.inc();
        self.connection_latency.observe(took.as_secs_f64());
    }

    pub(crate) fn broken(&self) {
        self.connection_errors.inc();
    }

    /// Updates the gauges with the changed share of a pod. Recounting only changed pods makes idle pods
    /// free.
    pub(crate) fn recount(&self, old: Counts, new: Counts) {
        self.running_pods.add(i64::from(new.running) - i64::from(old.running));
        for (place, (state, _)) in STATES.iter().enumerate() {
            let change = new.containers[place] - old.containers[place];
            self.running_containers.with_label_values(&[*state]).add(change);
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    #[test]
    fn gauges_follow_changes_of_pods() {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry).unwrap();
        let one = Counts { running: true, containers: [0, 2, 1, 0] };
        metrics.recount(Counts::default(), one);
        metrics.recount(Counts::default(), one);
        metrics.recount(one, Counts { running: false, containers: [0, 0, 3, 0] });
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            "kubelet_running_pods 1",
            "kubelet_running_containers{container_state=\"created\"} 0",
            "kubelet_running_containers{container_state=\"running\"} 2",
            "kubelet_running_containers{container_state=\"exited\"} 4",
            "kubelet_pleg_discard_events 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn registering_metrics_twice_fails() {
        let registry = Registry::new();
        Metrics::new(&registry).unwrap();
        assert!(Metrics::new(&registry).is_err());
    }
}
