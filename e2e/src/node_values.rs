//! The values of a Node object, and known differences between our agent's and the upstream kubelet's.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::differences::{KnownDifference, is_time, leaves};

/// Where our Node object differs from upstream's, and why that is right.
pub const DIFFERENT: &[KnownDifference] = &[
    KnownDifference {
        path: "/status/nodeInfo/kubeletVersion",
        ours: "v1.36.3+ferrolet.*",
        upstream: "v1.36.3",
        why: "promised in docs/behaviour/node.md, NODE-16: one sees which agent a node has",
    },
    KnownDifference {
        path: "/status/declaredFeatures/ExtendWebSocketsToKubelet",
        ours: "",
        upstream: "declared",
        why: "promised in docs/behaviour/node.md, NODE-17: nothing is declared that is not there, \
              and our port serves neither exec nor attach",
    },
];

/// Who wrote the object and when: these say nothing about the node.
const NOT_COMPARED: &[&str] = &[
    "/metadata/name",
    "/metadata/uid",
    "/metadata/resourceVersion",
    "/metadata/creationTimestamp",
    "/metadata/managedFields",
];

/// All values of a Node object, by their paths.
pub fn node_values(node: &Value) -> BTreeMap<String, String> {
    let mut node = node.clone();
    // By the feature's name, so that the order of the list does not matter.
    let features = node["status"]["declaredFeatures"].take();
    let names = features.as_array().into_iter().flatten().filter_map(Value::as_str);
    let features = names.map(|name| (name.to_owned(), Value::from("declared")));
    node["status"]["declaredFeatures"] = Value::Object(features.collect());
    let mut all = leaves(&node);
    all.retain(|path, _| !is_time(path) && !NOT_COMPARED.iter().any(|skip| path.starts_with(skip)));
    all
}
