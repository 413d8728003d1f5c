//! Metrics of the configuration: which features are on, and whether a later version needs a newer runtime.

use std::collections::BTreeMap;

use config::KubeletConfiguration;
use config::gates::FeatureGates;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts, Registry};

use crate::supported_settings::feature_is_on;

/// The first version of Kubernetes that requires the runtime to report its cgroup driver.
const FIRST_TO_NEED_AN_ANSWER: &str = "1.37.0";

/// Reports every feature gate and whether it is on. There are hundreds, so they are built only when metrics are
/// collected.
#[derive(Debug)]
struct FeatureMetrics {
    /// The metric without values, for its description.
    about: IntGaugeVec,
    /// The gates of the configuration.
    switched: BTreeMap<String, bool>,
}

fn feature_enabled() -> prometheus::Result<IntGaugeVec> {
    let help = "The stage of a feature of Kubernetes, and whether it is on (1) or off or not \
                implemented (0).";
    IntGaugeVec::new(Opts::new("kubernetes_feature_enabled", help), &["name", "stage"])
}

impl Collector for FeatureMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.about.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let gauge = feature_enabled().expect("it was created before with the same options");
        for (name, stage, on) in FeatureGates::new(&self.switched, &self.switched).all() {
            let on = feature_is_on(name, on);
            gauge.with_label_values(&[name, stage.to_string().as_str()]).set(i64::from(on));
        }
        gauge.collect()
    }
}

/// Registers the metric of the features.
pub(crate) fn register_features(
    registry: &Registry,
    config: &KubeletConfiguration,
) -> prometheus::Result<()> {
    let (about, switched) = (feature_enabled()?, config.feature_gates.clone());
    registry.register(Box::new(FeatureMetrics { about, switched }))
}

/// Registers the metric that reports that a later version does not work with the runtime of this node.
pub(crate) fn register_losing_support(registry: &Registry) -> prometheus::Result<()> {
    let help =
        "The version of Kubernetes that does not work any more with the runtime of this node.";
    let gauge = IntGaugeVec::new(Opts::new("kubelet_cri_losing_support", help), &["version"])?;
    gauge.with_label_values(&[FIRST_TO_NEED_AN_ANSWER]).set(1);
    registry.register(Box::new(gauge))
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    // behaviour: CFG-56
    #[test]
    fn features_are_reported_with_stage_and_0_when_off_or_not_implemented() {
        let (registry, mut config) = (Registry::new(), KubeletConfiguration::of_empty_file());
        config.feature_gates.insert("AllAlpha".to_owned(), true);
        config.feature_gates.insert("MemoryQoS".to_owned(), false);
        register_features(&registry, &config).unwrap();
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            "kubernetes_feature_enabled{name=\"AllAlpha\",stage=\"ALPHA\"} 1",
            "kubernetes_feature_enabled{name=\"AllBeta\",stage=\"BETA\"} 0",
            "kubernetes_feature_enabled{name=\"EventedPLEG\",stage=\"ALPHA\"} 1",
            "kubernetes_feature_enabled{name=\"MemoryQoS\",stage=\"ALPHA\"} 0",
            // Not implemented, so its gate does not matter.
            "kubernetes_feature_enabled{name=\"QOSReserved\",stage=\"ALPHA\"} 0",
            "kubernetes_feature_enabled{name=\"ResourceHealthStatus\",stage=\"BETA\"} 0",
            "kubernetes_feature_enabled{name=\"DynamicResourceAllocation\",stage=\"\"} 0",
            "kubernetes_feature_enabled{name=\"NodeDeclaredFeatures\",stage=\"BETA\"} 1",
            "kubernetes_feature_enabled{name=\"NodeSwap\",stage=\"\"} 1",
            "kubernetes_feature_enabled{name=\"SidecarContainers\",stage=\"\"} 1",
            "kubernetes_feature_enabled{name=\"KMSv1\",stage=\"DEPRECATED\"} 0",
        ] {
            assert!(text.lines().any(|reported| reported == line), "{line}:\n{text}");
        }
        let reported = text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(reported, config::gates::known().len() + 2);
    }

    // behaviour: CFG-8
    #[test]
    fn losing_support_names_the_first_version_without_the_runtime() {
        let registry = Registry::new();
        register_losing_support(&registry).unwrap();
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let line = "kubelet_cri_losing_support{version=\"1.37.0\"} 1";
        assert!(text.lines().any(|reported| reported == line), "{text}");
    }
}
