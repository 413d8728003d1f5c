//! Objects of tests.

use serde_json::{Value, json};

/// A node without an agent.
pub(crate) fn node(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } })
}

/// A pod, bound to a node if one is given.
pub(crate) fn pod(name: &str, node: Option<&str>) -> Value {
    let mut spec = json!({
        "containers": [{ "name": "c", "image": "ferrolet.test/workload:1" }],
        "automountServiceAccountToken": false,
    });
    if let Some(node) = node {
        spec["nodeName"] = json!(node);
    }
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec })
}
