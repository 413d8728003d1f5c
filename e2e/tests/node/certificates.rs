//! A node joins with a bootstrap token, and its certificates rotate.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use e2e::cluster_node::ClusterNode;
use e2e::node::NODE_NAME;
use serde_json::{Value, json};
use testbed::{ControlPlaneOptions, User};

/// How long certificates live: long enough for the node to register with the first one.
const LIFE: &str = "30s";

const APPROVALS: &str = "system:certificates.k8s.io:certificatesigningrequests";

fn options() -> ControlPlaneOptions {
    ControlPlaneOptions {
        api_server: vec!["--enable-bootstrap-token-auth".to_owned()],
        controller_manager: Some(vec![
            "--controllers=csrapproving,csrsigning".to_owned(),
            format!("--cluster-signing-duration={LIFE}"),
        ]),
        ..ControlPlaneOptions::default()
    }
}

/// What `kubeadm init` sets up: a token, and who may request and gets approval.
fn allow_joining(cluster: &ClusterNode) -> Result<()> {
    let namespace = "/api/v1/namespaces/kube-system";
    cluster.wait_for(namespace, "the namespace exists", |found| found.map(drop))?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": { "name": "bootstrap-token-abcdef" },
        "stringData": {
            "token-id": "abcdef", "token-secret": "0123456789abcdef",
            "usage-bootstrap-authentication": "true",
        },
    });
    cluster.api().create(&format!("{namespace}/secrets"), &secret)?;
    let bindings = [
        ("bootstrap", "system:node-bootstrapper".to_owned(), "system:bootstrappers"),
        ("approve", format!("{APPROVALS}:nodeclient"), "system:bootstrappers"),
        ("renew", format!("{APPROVALS}:selfnodeclient"), "system:nodes"),
    ];
    for (name, role, group) in bindings {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group }],
        });
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        cluster.api().create(path, &binding)?;
    }
    Ok(())
}

/// A kubeconfig with the token.
fn bootstrap_kubeconfig(cluster: &ClusterNode) -> Result<PathBuf> {
    let path = cluster.kubeconfig(&User::new("joins"))?;
    let mut config: Value = serde_json::from_str(&fs::read_to_string(&path)?)?;
    config["users"][0]["user"] = json!({ "token": "abcdef.0123456789abcdef" });
    let own = path.with_file_name("bootstrap-kubelet.conf");
    fs::write(&own, config.to_string()).context("write a kubeconfig")?;
    Ok(own)
}

/// The file that a link names.
fn target(link: &Path) -> Result<PathBuf> {
    fs::read_link(link).with_context(|| format!("{} is a link", link.display()))
}

// behaviour: CERT-1, CERT-4, CERT-16
#[test]
fn node_joins_with_a_token_and_rotates_its_client_certificate() -> Result<()> {
    let mut cluster = ClusterNode::start(&options())?;
    allow_joining(&cluster)?;
    let bootstrap = bootstrap_kubeconfig(&cluster)?;
    let written = bootstrap.with_file_name("written-kubelet.conf");
    let (bootstrap, kubeconfig) = (bootstrap.display().to_string(), written.display().to_string());
    cluster.start_agent_with_flags(&[
        "--bootstrap-kubeconfig",
        &bootstrap,
        "--kubeconfig",
        &kubeconfig,
        "--enable-server=true",
        "--rotate-certificates",
        "--rotate-server-certificates",
    ])?;
    cluster.wait_node_ready()?;
    let pki = cluster.node().root_dir().join("pki");
    let current = pki.join("kubelet-client-current.pem");
    let first = target(&current)?;
    ensure!(fs::read_to_string(&written)?.contains("kubelet-client-current.pem"));
    cluster.make_pod("web", &["sleep", "forever"])?;
    cluster.wait_ready(&ClusterNode::pod_path("web"))?;

    let event = cluster.wait_for_node_event("CertificateRequestPending", "kubectl certificate")?;
    let message = event["message"].as_str().context("it has a message")?;
    let name = message.rsplit(' ').next().context("it names a request")?;
    cluster.kubectl(&["certificate", "approve", name])?;
    cluster.node().wait_for_log(&["Certificate issued and stored", "serving"])?;
    ensure!(target(&pki.join("kubelet-server-current.pem"))?.exists());

    cluster.node().explained(testbed::wait::until("the rotation", e2e::node::PATIENCE, || {
        Ok(if target(&current)? == first { Err("the same".to_owned()) } else { Ok(()) })
    }))?;
    cluster.remove_pod("web")?;
    cluster.make_pod("later", &["sleep", "forever"])?;
    cluster.wait_ready(&ClusterNode::pod_path("later"))?;
    ensure!(cluster.api().get(&format!("/api/v1/nodes/{NODE_NAME}"))?.is_some());
    cluster.remove_pod("later")?;
    cluster.stop()
}
