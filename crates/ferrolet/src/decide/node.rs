//! The node as admission sees it, from the configuration.

use std::collections::BTreeMap;

use allocation::decide::admission::{Ability, Node};
use config::KubeletConfiguration;
use config::gates::FeatureGates;
use k8s_openapi::api::core::v1::Node as ApiNode;
use model::ports::runtime::RuntimeFeatures;
use node::decide::configured::{labels, taints};
use podspec::quantity::Quantity;
use podspec::resources::{Amounts, CPU, EPHEMERAL_STORAGE, MEMORY, PODS, is_extended};

/// A node with this name and machine architecture, in Go's terms.
pub(crate) fn admission_node(
    config: &KubeletConfiguration,
    name: &str,
    arch: &str,
    own_labels: &BTreeMap<String, String>,
    allocatable: Amounts,
) -> Node {
    let gates = FeatureGates::new(&config.feature_gates, &config.feature_gates);
    Node {
        name: name.to_owned(),
        labels: labels(name, arch, own_labels),
        taints: taints(config),
        allocatable,
        abilities: Ability::ALL.into_iter().filter(|one| gates.enabled(one.gate())).collect(),
        ..Node::default()
    }
}

/// A node with unlimited resources and all features.
pub(crate) fn unlimited_node(name: &str) -> Node {
    let all = [(CPU, "1M"), (MEMORY, "1Ei"), (EPHEMERAL_STORAGE, "1Ei"), (PODS, "1M")];
    let amount = |text: &str| Quantity::parse(text).expect("an amount");
    Node {
        name: name.to_owned(),
        labels: labels(name, "amd64", &BTreeMap::new()),
        allocatable: all.iter().map(|(name, text)| ((*name).to_owned(), amount(text))).collect(),
        runtime: RuntimeFeatures {
            supplemental_groups_policy: true,
            user_namespaces_host_network: true,
        },
        abilities: Ability::ALL.into(),
        ..Node::default()
    }
}

/// The node with the labels and taints of its object, and the extended resources in its status. Edits of the object
/// take precedence over the settings of the start.
pub(crate) fn as_registered(mut node: Node, object: &ApiNode) -> Node {
    let taints = object.spec.as_ref().and_then(|spec| spec.taints.clone());
    let reported = object.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let of_others = reported.into_iter().flatten().filter(|(name, _)| is_extended(name));
    let of_others = of_others
        .filter_map(|(name, amount)| Some((name.clone(), Quantity::parse(&amount.0).ok()?)));
    node.allocatable.retain(|name, _| !is_extended(name));
    node.allocatable.extend(of_others);
    Node {
        labels: object.metadata.labels.clone().unwrap_or_default(),
        taints: taints.unwrap_or_default(),
        ..node
    }
}

/// Go's name of an architecture, from Rust's name.
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
    use config::TaintEffect;
    use k8s_openapi::api::core::v1::{NodeSpec, NodeStatus, Taint};
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    // behaviour: ADM-21
    #[test]
    fn unregistered_node_has_its_configured_labels_and_taints() {
        let mut config = KubeletConfiguration::of_empty_file();
        let of = |config: &KubeletConfiguration, own: &[(&str, &str)]| {
            let own = own.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            admission_node(config, "web-1", go_arch("x86_64"), &own.collect(), Amounts::new())
        };
        let plain = of(&config, &[]);
        assert_eq!(plain.labels, labels("web-1", "amd64", &BTreeMap::new()));
        let on = [
            Ability::PodLevelResources,
            Ability::NodeDeclaredFeatures,
            Ability::RestartAllContainersOnContainerExits,
            Ability::InPlacePodLevelResourcesVerticalScaling,
            Ability::InPlacePodVerticalScalingInitContainers,
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
        // The runtime has not reported its features yet.
        assert_eq!(gated.runtime, RuntimeFeatures::default());

        let taint = config::Taint {
            key: "k".to_owned(),
            value: String::new(),
            effect: Some(TaintEffect::NoExecute),
            time_added: None,
        };
        config.register_with_taints = vec![taint];
        assert_eq!(of(&config, &[]).taints, [no_execute("k")]);
    }

    fn no_execute(key: &str) -> Taint {
        let (key, effect) = (key.to_owned(), "NoExecute".to_owned());
        Taint { key, effect, value: None, time_added: None }
    }

    // behaviour: ADM-21
    #[test]
    fn registered_node_has_the_labels_and_taints_of_its_object() {
        let text = |text: &str| text.to_owned();
        let own = Node {
            labels: [(text("zone"), text("north")), (text("own"), text("1"))].into(),
            taints: vec![no_execute("own")],
            ..unlimited_node("web-1")
        };
        let object = |labels: Option<&[(&str, &str)]>, taints: Option<Vec<Taint>>| {
            let labels = labels.map(|all| all.iter().map(|(k, v)| (text(k), text(v))).collect());
            let spec = NodeSpec { taints, ..NodeSpec::default() };
            let metadata = ObjectMeta { labels, ..ObjectMeta::default() };
            ApiNode { metadata, spec: Some(spec), status: None }
        };
        let rows = [
            ("changed", object(Some(&[("zone", "south")]), Some(vec![no_execute("theirs")]))),
            ("taken away", object(None, None)),
            ("an empty object", ApiNode::default()),
        ];
        for (row, object) in rows {
            let known = as_registered(own.clone(), &object);
            let labels = object.metadata.labels.unwrap_or_default();
            let taints = object.spec.and_then(|spec| spec.taints).unwrap_or_default();
            assert_eq!((&known.labels, &known.taints), (&labels, &taints), "{row}");
            let rest = Node { labels: own.labels.clone(), taints: own.taints.clone(), ..known };
            assert_eq!(rest, own, "{row}");
        }
    }

    // behaviour: ADM-24
    #[test]
    fn extended_resources_are_taken_from_the_node_object() {
        let object = |reported: &[(&str, &str)]| {
            let reported = reported
                .iter()
                .map(|(name, text)| ((*name).to_owned(), ApiQuantity((*text).to_owned())));
            let status =
                NodeStatus { allocatable: Some(reported.collect()), ..NodeStatus::default() };
            ApiNode { status: Some(status), ..ApiNode::default() }
        };
        let of = |node: &Node| {
            let all = node.allocatable.iter().filter(|(name, _)| name.contains('/'));
            all.map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>()
        };
        let own = unlimited_node("web-1");
        // The node's own resources come from the agent, not from the last published status.
        let reported = object(&[("example.com/gpu", "2"), ("cpu", "1"), ("memory", "1")]);
        let known = as_registered(own.clone(), &reported);
        assert_eq!(of(&known), ["example.com/gpu=2"]);
        assert_eq!((known.allocatable[CPU], known.allocatable.len()), (own.allocatable[CPU], 5));
        let known = as_registered(known, &object(&[("example.com/gpu", "0")]));
        assert_eq!(of(&known), ["example.com/gpu=0"], "present, with none left");
        let known = as_registered(known, &object(&[("example.com/fpga", "1")]));
        assert_eq!(of(&known), ["example.com/fpga=1"], "taken away");
        assert_eq!(as_registered(known, &ApiNode::default()).allocatable, own.allocatable);
    }
}
