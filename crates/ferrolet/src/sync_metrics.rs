//! Counts the pods of the node under upstream's names.

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// The counters. Static pods have the label `static="true"`, others an empty one.
#[derive(Debug, Clone)]
pub(crate) struct SyncMetrics {
    desired: IntGaugeVec,
    active: IntGaugeVec,
    mirrors: IntGauge,
    ephemeral: IntGauge,
    restarted: IntCounterVec,
    orphaned: IntCounter,
}

const STATIC: &str = "static";

fn label(is_static: bool) -> &'static str {
    if is_static { "true" } else { "" }
}

impl SyncMetrics {
    /// Registers the metrics.
    pub(crate) fn new(registry: &Registry) -> prometheus::Result<Self> {
        let gauges = |name: &str, help: &str| {
            let gauges = IntGaugeVec::new(Opts::new(name, help), &[STATIC])?;
            registry.register(Box::new(gauges.clone()))?;
            Ok::<_, prometheus::Error>(gauges)
        };
        let mirrors = IntGauge::new("kubelet_mirror_pods", "Number of static pods with mirrors.")?;
        registry.register(Box::new(mirrors.clone()))?;
        let ephemeral = IntGauge::new(
            "kubelet_managed_ephemeral_containers",
            "Number of ephemeral containers of the desired pods.",
        )?;
        registry.register(Box::new(ephemeral.clone()))?;
        let restarted = Opts::new(
            "kubelet_restarted_pods_total",
            "Number of pods that were added again with the same uid after they had ended.",
        );
        let restarted = IntCounterVec::new(restarted, &[STATIC])?;
        registry.register(Box::new(restarted.clone()))?;
        let orphaned = IntCounter::new(
            "kubelet_orphaned_runtime_pods_total",
            "Number of pods that were found in the container runtime and that no source lists.",
        )?;
        registry.register(Box::new(orphaned.clone()))?;
        Ok(Self {
            desired: gauges("kubelet_desired_pods", "Number of desired pods of this node.")?,
            active: gauges(
                "kubelet_active_pods",
                "Number of admitted pods that use resources of the node.",
            )?,
            mirrors,
            ephemeral,
            restarted,
            orphaned,
        })
    }

    /// Sets the numbers of desired and admitted pods; each entry says whether the pod is static.
    pub(crate) fn count(
        &self,
        desired: impl Iterator<Item = bool>,
        active: impl Iterator<Item = bool>,
    ) {
        set(&self.desired, desired);
        set(&self.active, active);
    }

    /// Sets the number of static pods with mirror pods.
    pub(crate) fn mirrors(&self, count: usize) {
        self.mirrors.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Sets the number of ephemeral containers of desired pods.
    pub(crate) fn ephemeral(&self, count: usize) {
        self.ephemeral.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts a pod that was added again.
    pub(crate) fn restarted(&self, is_static: bool) {
        self.restarted.with_label_values(&[label(is_static)]).inc();
    }

    /// Counts an orphaned pod.
    pub(crate) fn orphaned(&self) {
        self.orphaned.inc();
    }
}

/// Registers the metric of the node's name, for databases with the metrics of many nodes.
pub(crate) fn register_node_name(registry: &Registry, name: &str) -> prometheus::Result<()> {
    let opts = Opts::new("kubelet_node_name", "The name of the node; the value is always 1.");
    let gauge = IntGaugeVec::new(opts, &["node"])?;
    gauge.with_label_values(&[name]).set(1);
    registry.register(Box::new(gauge))
}

fn set(gauges: &IntGaugeVec, pods: impl Iterator<Item = bool>) {
    let mut counts = [0, 0];
    for is_static in pods {
        counts[usize::from(is_static)] += 1;
    }
    for (is_static, count) in [false, true].into_iter().zip(counts) {
        gauges.with_label_values(&[label(is_static)]).set(count);
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    // behaviour: WRK-30, WRK-32, WRK-33
    #[test]
    fn pods_are_counted_by_static_label() {
        let registry = Registry::new();
        let metrics = SyncMetrics::new(&registry).unwrap();
        metrics.count([true, false, true].into_iter(), [false, false].into_iter());
        metrics.count([true, false, true].into_iter(), [false].into_iter());
        metrics.mirrors(2);
        metrics.ephemeral(3);
        metrics.restarted(true);
        metrics.orphaned();
        register_node_name(&registry, "web-1").unwrap();
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            "kubelet_desired_pods{static=\"\"} 1",
            "kubelet_desired_pods{static=\"true\"} 2",
            "kubelet_active_pods{static=\"\"} 1",
            "kubelet_active_pods{static=\"true\"} 0",
            "kubelet_mirror_pods 2",
            "kubelet_managed_ephemeral_containers 3",
            "kubelet_restarted_pods_total{static=\"true\"} 1",
            "kubelet_orphaned_runtime_pods_total 1",
            "kubelet_node_name{node=\"web-1\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
