//! Steps in the life of a node: it joins, restarts, renews its certificate, and leaves.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testbed::Cache;

use crate::cluster::Cluster;
use crate::node::Node;
use crate::pods::Pods;
use crate::replace::ensure_version;
use crate::settled::{ensure_same_containers, settled};

const INIT: &str = include_str!("../node/init.yaml");
const JOIN: &str = include_str!("../node/join.yaml");

/// The number of static pods of a control plane.
const CONTROL_PLANE: usize = 4;
/// The link to the client certificate.
const CERTIFICATE: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";
/// The manifest of the controller manager.
const CONTROLLER_MANAGER: &str = "/etc/kubernetes/manifests/kube-controller-manager.yaml";

/// kubeadm waits for the health of the kubelet and the components. Afterwards the kubeconfig names the certificate that
/// the agent renews.
pub(crate) fn init(cluster: &Cluster) -> Result<()> {
    let first = &cluster.first;
    // While there is no configuration, the service starts and ends, as with the kubelet's package.
    let state = first.script("systemctl is-active kubelet || true")?;
    ensure!(state == "activating" || state == "active", "the service is {state}");
    let config = INIT.replace("NODE_IP", &first.ip()).replace("ETCD_TAG", &etcd_tag()?);
    let config = first.write("init.yaml", &config)?;
    first.kubeadm_unchecked(&["init", "--config", &config])?;
    let kubeconfig = first.read("/etc/kubernetes/kubelet.conf");
    ensure!(kubeconfig.contains(CERTIFICATE), "kubeadm found no certificate that is renewed");
    cluster.wait_pods_ready("tier=control-plane", CONTROL_PLANE)
}

/// The tag of the image of etcd, from the name of its archive.
fn etcd_tag() -> Result<String> {
    let directory = Cache::from_env()?.parts().images_dir().join("kubeadm");
    let names = std::fs::read_dir(directory).context("list the images")?;
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let tag =
        names.filter_map(|name| Some(name.strip_prefix("etcd-")?.strip_suffix(".tar")?.to_owned()));
    tag.max().context("there is no image of etcd: run `make kubeadm`")
}

pub(crate) fn join(cluster: &Cluster) -> Result<()> {
    join_second(cluster)?;
    ensure_version(cluster, &cluster.second, "+ferrolet")
}

/// Joins with a new token, and waits until the node and its pods are ready.
pub(crate) fn join_second(cluster: &Cluster) -> Result<()> {
    let line = cluster.first.run(&["kubeadm", "token", "create", "--print-join-command"])?;
    let after = |option: &str| {
        let mut words = line.split_whitespace().skip_while(|word| *word != option);
        words.nth(1).with_context(|| format!("no {option} in {line}"))
    };
    let config = JOIN
        .replace("SERVER_IP", &cluster.first.ip())
        .replace("TOKEN", after("--token")?)
        .replace("CA_HASH", after("--discovery-token-ca-cert-hash")?)
        .replace("NODE_IP", &cluster.second.ip());
    let config = cluster.second.write("join.yaml", &config)?;
    cluster.second.kubeadm_unchecked(&["join", "--config", &config])?;
    cluster.wait_node_ready("node-2", "True")
}

pub(crate) fn cluster_add_ons(cluster: &Cluster) -> Result<()> {
    cluster.wait_pods_ready("k8s-app=kube-proxy", 2)?;
    cluster.wait_pods_ready("k8s-app=kube-dns", 2)
}

pub(crate) fn restart(cluster: &Cluster) -> Result<()> {
    let before = settled(cluster)?;
    for node in cluster.nodes() {
        node.run(&["systemctl", "restart", "kubelet"])?;
    }
    ensure_same_containers(cluster, &before, "restarted")
}

/// The nodes get the configuration of the cluster, and use it after a restart.
pub(crate) fn upgrade(cluster: &Cluster) -> Result<()> {
    let mut map = cluster.get(&["configmap", "-n", "kube-system", "kubelet-config"])?;
    let text = map["data"]["kubelet"].as_str().context("the configuration of the cluster")?;
    map["data"]["kubelet"] = Value::from(format!("{}\nmaxPods: 77\n", text.trim_end()));
    cluster.apply("kubelet-config.json", &map.to_string())?;
    let before = settled(cluster)?;
    for node in cluster.nodes() {
        node.kubeadm_unchecked(&["upgrade", "node"])?;
        node.run(&["systemctl", "restart", "kubelet"])?;
        cluster.wait(&format!("{} has room for 77 pods", node.name()), || {
            let node = cluster.get(&["node", node.name()])?;
            let pods = &node["status"]["capacity"]["pods"];
            Ok(if *pods == json!("77") { Ok(()) } else { Err(pods.to_string()) })
        })?;
    }
    ensure_same_containers(cluster, &before, "upgraded")
}

pub(crate) fn reset_second(cluster: &Cluster) -> Result<()> {
    let drain = ["drain", "node-2", "--ignore-daemonsets", "--delete-emptydir-data", "--force"];
    cluster.kubectl(&drain)?;
    reset(&cluster.second)?;
    cluster.kubectl(&["delete", "node", "node-2"])?;
    // Pods of a removed node are deleted after a while. The next node of that name would run them.
    let field = "--field-selector=spec.nodeName=node-2";
    cluster.kubectl(&["delete", "pods", "-A", field, "--force", "--grace-period=0"]).map(drop)
}

pub(crate) fn reset_first(cluster: &Cluster) -> Result<()> {
    reset(&cluster.first)
}

/// Fails if containers, mounts or files of the node are left.
fn reset(node: &Node) -> Result<()> {
    node.kubeadm(&["reset", "--force"])?;
    let containers = node.instance().ctr(&["containers", "list", "--quiet"])?;
    let containers = String::from_utf8_lossy(&containers.stdout).trim().to_owned();
    ensure!(containers.is_empty(), "containers are left: {containers}");
    let mounts = node.read("/proc/self/mounts") + &node.script("cat /proc/self/mounts")?;
    let left = mounts.lines().find(|line| line.contains(" /var/lib/kubelet/"));
    ensure!(left.is_none(), "a mount is left: {left:?}");
    let files = node.script("mkdir -p /etc/kubernetes/manifests; find /var/lib/kubelet /etc/kubernetes/manifests -mindepth 1")?;
    ensure!(files.is_empty(), "files are left: {files}");
    Ok(())
}

/// From now on, the cluster signs certificates for two minutes. The agent runs the changed static pod.
pub(crate) fn short_signing(cluster: &Cluster) -> Result<()> {
    // A pod that had to leave the other node may still start.
    let before = cluster.pods()?.ready();
    let edit = format!(
        "sed -i 's/^    - --cluster-signing-key-file/    - --cluster-signing-duration=2m\\n&/' {CONTROLLER_MANAGER}"
    );
    cluster.first.script(&edit)?;
    cluster.wait("the controller manager has the new flag and is ready", || {
        let pods = cluster.get(&["pods", "-n", "kube-system", "kube-controller-manager-node-1"])?;
        let has_flag = pods["spec"].to_string().contains("--cluster-signing-duration=2m");
        let pod = Pods::of(&json!({ "items": [pods] }));
        Ok(if has_flag && pod.are_ready() { Ok(()) } else { Err(pod.to_string()) })
    })?;
    let changed = before.differences(&cluster.pods()?);
    let is_other = |line: &String| !line.contains("kube-controller-manager");
    ensure!(!changed.iter().any(is_other), "other pods have changed: {changed:?}");
    Ok(())
}

/// A certificate lives for seven minutes, of which five are over when it is issued.
pub(crate) fn rotation(cluster: &Cluster) -> Result<()> {
    let before = settled(cluster)?;
    let certificate = || cluster.second.run(&["readlink", CERTIFICATE]);
    let first = certificate()?;
    cluster.wait("another certificate is in use", || {
        let now = certificate()?;
        Ok(if now == first { Err(now) } else { Ok(()) })
    })?;
    ensure_same_containers(cluster, &before, "rotated")
}
