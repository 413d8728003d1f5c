//! Pulls of private images from a real registry.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use e2e::node::Node;
use e2e::registry::Registry;

const LOGIN: &str = "robot:hunter2";

fn write_pod(node: &Node, name: &str, image: &str) -> Result<()> {
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers:\n  \
         - {{name: main, image: \"{image}\", imagePullPolicy: IfNotPresent, args: [sleep, forever]}}\n"
    );
    node.write_manifest(&format!("{name}.yaml"), &text)
}

fn write_script(path: &Path, script: &str) -> Result<()> {
    fs::write(path, format!("#!/bin/sh\n{script}\n")).context("write a plugin")?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).context("make it executable")
}

// behaviour: PULL-25, PULL-34
#[test]
fn private_image_is_pulled_with_the_configuration_of_the_node() -> Result<()> {
    let mut node = Node::start()?;
    let registry = Registry::start_private(node.instance(), LOGIN)?;
    let image = registry.image("workload:1");
    write_pod(&node, "a", &image)?;
    node.start_agent()?;
    node.wait_for_answer(&["describe", "default/a"], "ImagePullBackOff")?;
    // In base64 as `docker login` writes it.
    let config =
        format!(r#"{{"auths": {{"{}": {{"auth": "cm9ib3Q6aHVudGVyMg=="}}}}}}"#, registry.address());
    fs::write(node.root_dir().join("config.json"), config).context("write config.json")?;
    // A new pod is not delayed.
    write_pod(&node, "b", &image)?;
    node.wait_running("b")?;
    node.wait_for_answer(&["image", "why", &image], "with credentials of the node")?;
    let directory = node.root_dir().join("image_manager");
    let names = |below: &str| node.names_in(&directory.join(below).display().to_string());
    let records = names("pulled")?;
    ensure!(records.len() == 1, "{records:?}");
    let record = node.read(&directory.join("pulled").join(&records[0]).display().to_string())?;
    ensure!(record.contains(r#""nodePodsAccessible":true"#), "{record}");
    ensure!(!node.agent_log().contains("hunter2"), "the password is in the log");
    node.stop()
}

// behaviour: PULL-42, PULL-45
#[test]
fn credential_provider_supplies_credentials_and_one_that_hangs_delays_only_its_images() -> Result<()>
{
    let mut node = Node::start()?;
    let registry = Registry::start_private(node.instance(), LOGIN)?;
    let (address, plugins) = (registry.address(), node.instance().dir().join("plugins"));
    fs::create_dir(&plugins).context("make the directory of plugins")?;
    let (host, port) = address.rsplit_once(':').context("an address with a port")?;
    let version = "credentialprovider.kubelet.k8s.io/v1";
    let response = format!(
        r#"{{"apiVersion": "{version}", "kind": "CredentialProviderResponse", "cacheKeyType": "Registry", "auth": {{"{address}": {{"username": "robot", "password": "hunter2"}}}}}}"#
    );
    let requests = plugins.join("requests");
    let supply = format!("cat >> {}\necho '{response}'", requests.display());
    write_script(&plugins.join("supply"), &supply)?;
    write_script(&plugins.join("hang"), "sleep 3600")?;
    let provider = |name: &str, image: &str| {
        format!(
            "- {{name: {name}, matchImages: [\"{image}\"], defaultCacheDuration: 1h, apiVersion: {version}}}\n"
        )
    };
    let config = node.instance().dir().join("providers.yaml");
    let head = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n";
    let providers = provider("supply", &format!("{host}:{port}/ferrolet/workload"))
        + &provider("hang", &format!("{host}:{port}/ferrolet/disposable"));
    fs::write(&config, format!("{head}{providers}")).context("write the configuration")?;
    node.configure("serializeImagePulls: false")?;
    write_pod(&node, "hanging", &registry.image("disposable:1"))?;
    write_pod(&node, "supplied", &registry.image("workload:1"))?;
    let begun = Instant::now();
    node.start_agent_with_flags(&[
        "--image-credential-provider-config",
        &config.display().to_string(),
        "--image-credential-provider-bin-dir",
        &plugins.display().to_string(),
    ])?;
    node.wait_running("supplied")?;
    let took = begun.elapsed();
    ensure!(took.as_secs() < 50, "the pod waited {took:?}, perhaps for the plugin that hangs");
    let requests = fs::read_to_string(&requests).context("read the requests")?;
    let field = format!(r#""image":"{address}/ferrolet/workload""#);
    ensure!(requests.contains(&field), "no {field} in {requests}");
    node.wait_for_answer(&["describe", "default/hanging"], "ContainerCreating")?;
    ensure!(!node.agent_log().contains("hunter2"), "the password is in the log");
    node.stop()
}
