//! Counts rejected and preempted pods.

use prometheus::{IntCounterVec, Opts, Registry};

/// Reasons that are counted by name; extended resources and other reasons have one label each.
const REASONS: [&str; 20] = [
    "AppArmor",
    "PodOSSelectorNodeLabelDoesNotMatch",
    "PodOSNotSupported",
    "InvalidNodeInfo",
    "InitContainerRestartPolicyForbidden",
    "SupplementalGroupsPolicyNotSupported",
    "UnexpectedAdmissionError",
    "UnknownReason",
    "UnexpectedPredicateFailureType",
    "OutOfcpu",
    "OutOfmemory",
    "OutOfephemeral-storage",
    "OutOfpods",
    "PodLevelResourcesNotSupported",
    "PodFeatureUnsupported",
    "Evicted",
    "SysctlForbidden",
    "TopologyAffinityError",
    "NodeShutdown",
    "VolumeAttachmentLimitExceeded",
];

/// The metrics, by their upstream names.
#[derive(Debug, Clone)]
pub struct AdmissionMetrics {
    rejections: IntCounterVec,
    preemptions: IntCounterVec,
}

impl AdmissionMetrics {
    /// Creates metrics and registers them.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str, label: &str| {
            let counter = IntCounterVec::new(Opts::new(name, help), &[label])?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        Ok(Self {
            rejections: counter(
                "kubelet_admission_rejections_total",
                "Cumulative number pod admission rejections by the Kubelet.",
                "reason",
            )?,
            preemptions: counter(
                "kubelet_preemptions",
                "Cumulative number of pod preemptions by preemption resource",
                "preemption_signal",
            )?,
        })
    }

    /// Counts a rejected pod.
    pub fn rejected(&self, reason: &str) {
        self.rejections.with_label_values(&[label(reason)]).inc();
    }

    /// Counts a pod that was preempted for that resource.
    pub fn preempted(&self, resource: &str) {
        self.preemptions.with_label_values(&[resource]).inc();
    }
}

fn label(reason: &str) -> &str {
    if REASONS.contains(&reason) {
        reason
    } else if reason.starts_with("OutOf") {
        "OutOfExtendedResources"
    } else {
        "Other"
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    // behaviour: ADM-22
    #[test]
    fn rejections_are_counted_by_few_reasons() {
        let registry = Registry::new();
        let metrics = AdmissionMetrics::new(&registry).unwrap();
        for reason in ["OutOfcpu", "OutOfcpu", "OutOfexample.com/gpu", "NodeAffinity"] {
            metrics.rejected(reason);
        }
        metrics.preempted("memory");
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            "kubelet_admission_rejections_total{reason=\"OutOfcpu\"} 2",
            "kubelet_admission_rejections_total{reason=\"OutOfExtendedResources\"} 1",
            "kubelet_admission_rejections_total{reason=\"Other\"} 1",
            "kubelet_preemptions{preemption_signal=\"memory\"} 1",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
