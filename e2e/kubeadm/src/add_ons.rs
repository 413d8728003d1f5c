//! Steps with the add-ons that clusters get on their first day.

use anyhow::{Context, Result, bail, ensure};

use crate::cluster::Cluster;
use crate::node::Node;
use crate::pods::{Pod, Pods};

const NETWORK: &str = include_str!("../manifests/network.yaml");
const WEB: &str = include_str!("../manifests/web.yaml");
const ADD_ONS: &str = include_str!("../manifests/add-ons.yaml");

/// How often each client requests the Service: each request may take another of its pods.
const REQUESTS: usize = 6;

/// kube-proxy runs on the network of a node that is not ready.
pub(crate) fn host_network(cluster: &Cluster) -> Result<()> {
    cluster.wait_pods_ready("k8s-app=kube-proxy", 1)?;
    cluster.wait_node_ready("node-1", "False")
}

/// An init container installs plugins on the node, and its main container has a volume with Bidirectional propagation.
pub(crate) fn network(cluster: &Cluster) -> Result<()> {
    cluster.apply("network.yaml", NETWORK)?;
    cluster.wait_pods_ready("k8s-app=network", 1)?;
    cluster.wait_node_ready("node-1", "True")?;
    let agent = pod_on(&cluster.pods()?, "network-", "node-1")?;
    let mounts = cat(cluster, &agent, "/proc/self/mountinfo")?;
    let mount = mounts.lines().find(|line| line.contains(" /var/run/network "));
    let mount = mount.context("the volume is not mounted")?;
    ensure!(mount.contains(" shared:"), "the volume is not Bidirectional: {mount}");
    Ok(())
}

/// A change of a config map reaches a container on the second node.
pub(crate) fn update_volume(cluster: &Cluster, value: &str) -> Result<()> {
    let patch = format!(r#"{{"data":{{"label":"{value}"}}}}"#);
    cluster.kubectl(&["patch", "configmap", "-n", "kube-system", "network", "-p", &patch])?;
    let agent = pod_on(&cluster.pods()?, "network-", "node-2")?;
    cluster.wait("the volume has the new content", || {
        let seen = cat(cluster, &agent, "/etc/network/label")?;
        Ok(if seen == value { Ok(()) } else { Err(seen) })
    })
}

/// Clients on both nodes look up the Service and reach its pods, which are on both nodes.
pub(crate) fn service(cluster: &Cluster) -> Result<()> {
    cluster.apply("web.yaml", WEB)?;
    cluster.wait_pods_ready("app=web", 2)?;
    cluster.wait_pods_ready("app=client", 2)?;
    let pods = cluster.pods()?;
    for node in cluster.nodes() {
        let client = pod_on(&pods, "client-", node.name())?;
        for name in ["web", "web.default.svc.cluster.local"] {
            // The rules of kube-proxy may be a moment late.
            cluster.wait(&format!("{} reaches {name}", client.name), || {
                Ok(request(cluster, &client, name, "80").map_err(|error| format!("{error:#}")))
            })?;
            for _ in 0..REQUESTS {
                request(cluster, &client, name, "80")?;
            }
        }
        for other in cluster.nodes() {
            let server = pod_on(&pods, "web-", other.name())?;
            request(cluster, &client, &server.ip, "8080")?;
        }
    }
    Ok(())
}

/// The collector finds the log of a container by the name of its link.
pub(crate) fn log_collector(cluster: &Cluster) -> Result<()> {
    cluster.apply("add-ons.yaml", ADD_ONS)?;
    cluster.wait_pods_ready("name=log-collector", 2)?;
    let pods = cluster.pods()?;
    for node in cluster.nodes() {
        let collector = pod_on(&pods, "log-collector-", node.name())?;
        let web = pod_on(&pods, "web-", node.name())?;
        let container = web.containers.get("web").context("the pod has no container")?;
        let id = container.id.trim_start_matches("containerd://");
        let log = format!("/var/log/containers/{}_{}_web-{id}.log", web.name, web.namespace);
        let lines = cat(cluster, &collector, &log)?;
        ensure!(lines.contains("stdout F serving 8080"), "{log} has other lines: {lines}");
    }
    Ok(())
}

/// The exporter sees the first process of the node, and a file system that is mounted later.
pub(crate) fn node_exporter(cluster: &Cluster) -> Result<()> {
    cluster.wait_pods_ready("name=node-exporter", 2)?;
    let pods = cluster.pods()?;
    for node in cluster.nodes() {
        let exporter = pod_on(&pods, "node-exporter-", node.name())?;
        let first = cat(cluster, &exporter, "/proc/1/comm")?;
        ensure!(first == node.read("/proc/1/comm").trim_end(), "its first process is {first}");
        node.script(MOUNT_LATE)?;
        let seen = cat(cluster, &exporter, "/host/root/run/late/file");
        node.script("umount /run/late")?;
        ensure!(seen? == "there", "the exporter reads something else");
        let mounts = cat(cluster, &exporter, "/proc/self/mountinfo")?;
        let root = mounts.lines().find(|line| line.contains(" /host/root "));
        ensure!(root.is_some_and(|line| line.contains(" ro,")), "the root is mounted: {root:?}");
    }
    Ok(())
}

const MOUNT_LATE: &str = "mkdir -p /run/late; mount -t tmpfs late /run/late; \
                          echo there >/run/late/file; chmod 0644 /run/late/file";

fn pod_on(pods: &Pods, prefix: &str, node: &str) -> Result<Pod> {
    match pods.on(node).named(prefix) {
        Some(pod) => Ok(pod.clone()),
        None => bail!("{node} has no pod {prefix}: {pods}"),
    }
}

/// Runs the workload in a pod.
fn exec(cluster: &Cluster, pod: &Pod, words: &[&str]) -> Result<String> {
    let exec = ["exec", "--quiet", "-n", &pod.namespace, &pod.name, "--", "/workload"];
    cluster.kubectl(&[&exec, words].concat())
}

fn cat(cluster: &Cluster, pod: &Pod, file: &str) -> Result<String> {
    exec(cluster, pod, &["cat", file])
}

/// Requests a page; fails unless the status is 200.
fn request(cluster: &Cluster, pod: &Pod, host: &str, port: &str) -> Result<()> {
    exec(cluster, pod, &["get", host, port]).map(drop)
}

/// The pods that `DaemonSets` and Deployments of all steps have on a node.
pub(crate) fn wait_all_ready(cluster: &Cluster, node: &Node) -> Result<()> {
    cluster.wait(&format!("all pods of {} are ready", node.name()), || {
        let pods = cluster.pods()?.on(node.name());
        let is_done = pods.are_ready() && pods.named("client-").is_some();
        Ok(if is_done { Ok(()) } else { Err(pods.to_string()) })
    })
}
