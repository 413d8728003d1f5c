//! Which labels an agent may set on its own node.

use std::collections::BTreeMap;

use model::names::{label_value, qualified_name};

/// Allowed labels in namespaces of Kubernetes.
const ALLOWED: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// Allowed namespaces of Kubernetes, with everything below them.
const ALLOWED_NAMESPACES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// The errors of `--node-labels`.
pub fn node_label_problems(labels: &BTreeMap<String, String>) -> Vec<String> {
    let mut problems = Vec::new();
    for (key, value) in labels {
        if is_of_kubernetes(key) && !is_allowed(key) {
            problems.push(format!("label {key} is kept for Kubernetes and cannot be set here"));
        }
        for problem in qualified_name(key).into_iter().chain(label_value(value)) {
            problems.push(format!("label {key}={value}: {problem}"));
        }
    }
    problems
}

fn namespace(key: &str) -> &str {
    key.split_once('/').map_or("", |(namespace, _)| namespace)
}

fn is_within(namespace: &str, parent: &str) -> bool {
    namespace.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn is_of_kubernetes(key: &str) -> bool {
    ["kubernetes.io", "k8s.io"].iter().any(|parent| is_within(namespace(key), parent))
}

fn is_allowed(key: &str) -> bool {
    ALLOWED.contains(&key)
        || ALLOWED_NAMESPACES.iter().any(|parent| is_within(namespace(key), parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_labels_are_limited_to_a_list() {
        for (key, allowed) in [
            ("role", true),
            ("example.com/role", true),
            ("kubernetes.io/hostname", true),
            ("node.kubernetes.io/pool", true),
            ("eu.node.kubernetes.io/pool", true),
            ("topology.kubernetes.io/zone", true),
            ("kubernetes.io/role", false),
            ("node-role.kubernetes.io/worker", false),
            ("x.k8s.io/y", false),
            ("notkubernetes.io/x", true),
        ] {
            let labels = BTreeMap::from([(key.to_owned(), "v".to_owned())]);
            assert_eq!(node_label_problems(&labels).is_empty(), allowed, "{key}");
        }
    }

    #[test]
    fn keys_and_values_must_be_well_formed() {
        let labels = BTreeMap::from([("a b".to_owned(), "-".to_owned())]);
        assert_eq!(node_label_problems(&labels).len(), 2);
    }
}
