//! What pods meet on this node, as it is configured.

use std::collections::BTreeMap;

use config::KubeletConfiguration;
use config::gates::FeatureGates;
use k8s_openapi::api::core::v1::Taint;
use model::ports::runtime::RuntimeFeatures;
use pods::decide::admission::{Ability, Node};
use podspec::quantity::Quantity;
use podspec::resources::{Amounts, CPU, EPHEMERAL_STORAGE, MEMORY, PODS};

/// The node of that name on a machine of that kind, as Go calls it.
pub(crate) fn admission_node(
    config: &KubeletConfiguration,
    (name, arch): (&str, &str),
    own_labels: &BTreeMap<String, String>,
    allocatable: Amounts,
) -> Node {
    let gates = FeatureGates::new(&config.feature_gates, &config.feature_gates);
    let taints = config.register_with_taints.iter().map(|taint| Taint {
        key: taint.key.clone(),
        value: Some(taint.value.clone()),
        effect: taint.effect.map(|effect| effect.as_str().to_owned()).unwrap_or_default(),
        time_added: None,
    });
    let mut labels = labels(name, arch);
    labels.extend(own_labels.clone());
    Node {
        name: name.to_owned(),
        labels,
        taints: taints.collect(),
        allocatable,
        abilities: Ability::ALL.into_iter().filter(|one| gates.enabled(one.gate())).collect(),
        ..Node::default()
    }
}

/// A node that has room for whatever comes, and can do everything.
pub(crate) fn roomy(name: &str) -> Node {
    let all = [(CPU, "1M"), (MEMORY, "1Ei"), (EPHEMERAL_STORAGE, "1Ei"), (PODS, "1M")];
    let amount = |text: &str| Quantity::parse(text).expect("an amount");
    Node {
        name: name.to_owned(),
        labels: labels(name, "amd64"),
        allocatable: all.iter().map(|(name, text)| ((*name).to_owned(), amount(text))).collect(),
        runtime: RuntimeFeatures {
            supplemental_groups_policy: true,
            user_namespaces_host_network: true,
        },
        abilities: Ability::ALL.into(),
        ..Node::default()
    }
}

/// The labels that a node has without being told.
fn labels(name: &str, arch: &str) -> BTreeMap<String, String> {
    let own = [
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", arch),
        ("beta.kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/arch", arch),
    ];
    own.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// What Go calls a kind of machine, by what Rust calls it.
pub(crate) fn go_arch(arch: &str) -> &str {
    match arch {
        "x86_64" => "amd64",
        "x86" => "386",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        "loongarch64" => "loong64",
        same => same,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: ADM-21
    #[test]
    fn a_node_has_labels_taints_and_abilities_as_it_is_configured() {
        let mut config = KubeletConfiguration::of_empty_file();
        let of = |config: &KubeletConfiguration, own: &[(&str, &str)]| {
            let own = own.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            admission_node(config, ("web-1", go_arch("x86_64")), &own.collect(), Amounts::new())
        };
        let plain = of(&config, &[]);
        let labels: Vec<String> =
            plain.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let expected = [
            "beta.kubernetes.io/arch=amd64",
            "beta.kubernetes.io/os=linux",
            "kubernetes.io/arch=amd64",
            "kubernetes.io/hostname=web-1",
            "kubernetes.io/os=linux",
        ];
        assert_eq!(labels, expected);
        let on = [
            Ability::PodLevelResources,
            Ability::NodeDeclaredFeatures,
            Ability::RestartAllContainersOnContainerExits,
            Ability::InPlacePodLevelResourcesVerticalScaling,
        ];
        assert_eq!(plain.abilities, on.into());
        let named = of(&config, &[("kubernetes.io/hostname", "other"), ("zone", "north")]);
        assert_eq!((named.labels["zone"].as_str(), named.labels.len()), ("north", 6));
        assert_eq!(named.labels["kubernetes.io/hostname"], "other");

        config.feature_gates.insert("PodLevelResources".to_owned(), false);
        config.feature_gates.insert("UserNamespacesHostNetworkSupport".to_owned(), true);
        let gated = of(&config, &[]);
        assert!(!gated.abilities.contains(&Ability::PodLevelResources));
        assert!(gated.abilities.contains(&Ability::UserNamespacesHostNetworkSupport));
        // The runtime has not said yet what it can do.
        assert_eq!(gated.runtime, RuntimeFeatures::default());
    }
}
