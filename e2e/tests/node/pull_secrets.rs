//! Pull secrets of the API server, and which pods may use the pulled images.

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e::cluster_node::{ClusterNode, PODS, pod};
use e2e::registry::Registry;
use serde_json::{Value, json};
use testbed::ControlPlaneOptions;

const LOGIN: &str = "robot:hunter2";

/// A pod of the private image with a policy and pull secrets.
fn private_pod(name: &str, image: &str, secrets: &[&str]) -> Value {
    let mut pod = pod(name, &["sleep", "forever"]);
    let container = &mut pod["spec"]["containers"][0];
    (container["image"], container["imagePullPolicy"]) = (image.into(), "IfNotPresent".into());
    let secrets: Vec<Value> = secrets.iter().map(|name| json!({ "name": name })).collect();
    pod["spec"]["imagePullSecrets"] = secrets.into();
    pod
}

fn waiting_reason(pod: Option<&Value>) -> Option<&str> {
    pod?["status"]["containerStatuses"][0]["state"]["waiting"]["reason"].as_str()
}

// behaviour: PULL-24, PULL-33
#[test]
fn tenant_without_the_pull_secret_cannot_use_the_private_image_of_another() -> Result<()> {
    let mut node = ClusterNode::start(&ControlPlaneOptions::default())?;
    let registry = Registry::start_private(node.node().instance(), LOGIN)?;
    let image = registry.image("workload:1");
    let auth = json!({ "auth": STANDARD.encode(LOGIN) });
    let config = json!({ "auths": { registry.address(): auth } });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "key" },
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": { ".dockerconfigjson": config.to_string() },
    });
    node.api().create("/api/v1/namespaces/shop/secrets", &secret)?;
    node.start_agent()?;
    node.api().create(PODS, &private_pod("owner", &image, &["key"]))?;
    node.wait_ready(&ClusterNode::pod_path("owner"))?;
    node.api().create(PODS, &private_pod("other", &image, &["none"]))?;
    node.wait_for_event("other", "FailedToRetrieveImagePullSecret", "(none)")?;
    node.wait_for(&ClusterNode::pod_path("other"), "refused pull", |pod| {
        matches!(waiting_reason(pod), Some("ErrImagePull" | "ImagePullBackOff")).then_some(())
    })?;
    ensure!(node.containers("other")?.is_empty(), "the image was used");
    // The same secret again needs no pull.
    let before = registry.requests().len();
    node.api().create(PODS, &private_pod("second", &image, &["key"]))?;
    node.wait_ready(&ClusterNode::pod_path("second"))?;
    let pulls = registry.requests().split_off(before);
    ensure!(pulls.iter().all(|request| request.ends_with(" 401")), "{pulls:#?}");
    node.remove_pods(&["owner", "other", "second"])?;
    node.stop()
}
