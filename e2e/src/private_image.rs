//! Pods with an image of a private registry, and their pull secrets.

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::cluster_node::{ClusterNode, pod};
use crate::registry::Registry;

/// Creates the pull secret `key` with a login: `NAME:PASSWORD`.
pub fn create_pull_secret(node: &ClusterNode, registry: &Registry, login: &str) -> Result<()> {
    let auth = json!({ "auth": STANDARD.encode(login) });
    let config = json!({ "auths": { registry.address(): auth } });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "key" },
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": { ".dockerconfigjson": config.to_string() },
    });
    node.api().create("/api/v1/namespaces/shop/secrets", &secret)?;
    Ok(())
}

/// A pod of the private image with the policy `IfNotPresent` and pull secrets.
pub fn private_pod(name: &str, image: &str, secrets: &[&str]) -> Value {
    let mut pod = pod(name, &["sleep", "forever"]);
    let container = &mut pod["spec"]["containers"][0];
    (container["image"], container["imagePullPolicy"]) = (image.into(), "IfNotPresent".into());
    let secrets: Vec<Value> = secrets.iter().map(|name| json!({ "name": name })).collect();
    pod["spec"]["imagePullSecrets"] = secrets.into();
    pod
}

/// Waits until the pod's image is refused.
pub fn wait_refused(node: &ClusterNode, name: &str) -> Result<()> {
    node.wait_for(&ClusterNode::pod_path(name), "refused pull", |pod| {
        let waiting = &pod?["status"]["containerStatuses"][0]["state"]["waiting"];
        let reason = waiting["reason"].as_str();
        matches!(reason, Some("ErrImagePull" | "ImagePullBackOff")).then_some(())
    })
}
