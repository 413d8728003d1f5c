//! Pods with a runtime class.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::Cache;

use crate::cluster_node::{ClusterNode, PODS, pod};
use crate::node::NODE_NAME;

const CLASSES: &str = "/apis/node.k8s.io/v1/runtimeclasses";

/// Values in the cgroup of a pod whose container takes 100m and 32Mi and whose class takes 50m and 16Mi: a file of
/// cgroup v1 below its controller and its value, then the same for cgroup v2.
const WITH_OVERHEAD: [[&str; 5]; 3] = [
    ["cpu", "cpu.shares", "153", "cpu.weight", "6"],
    ["cpu", "cpu.cfs_quota_us", "15000", "cpu.max", "15000 100000"],
    ["memory", "memory.limit_in_bytes", "50331648", "memory.max", "50331648"],
];

/// A runtime handler that is runc, and records whether it was used. Its files are removed with it.
#[derive(Debug)]
pub(super) struct SecondRuntime {
    directory: TempDir,
}

impl SecondRuntime {
    pub(super) fn make() -> Result<Self> {
        let directory = tempfile::tempdir().context("make a directory")?;
        let second = Self { directory };
        let runc = Cache::from_env()?.parts().program("runc");
        let script = format!(
            "#!/bin/sh\necho \"$@\" >> {}\nexec {} \"$@\"\n",
            second.file("asked").display(),
            runc.display()
        );
        let program = second.file("runc");
        fs::write(&program, script).context("write the runtime")?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))
            .context("make it executable")?;
        Ok(second)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Its part of containerd's configuration.
    pub(super) fn config(&self) -> String {
        let name = "plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.second";
        let program = self.file("runc");
        format!(
            "[{name}]\nruntime_type = \"io.containerd.runc.v2\"\n[{name}.options]\n\
             BinaryName = \"{}\"\nSystemdCgroup = false\n",
            program.display()
        )
    }

    fn was_asked(&self) -> bool {
        fs::read_to_string(self.file("asked")).is_ok_and(|requested| requested.contains(" create "))
    }
}

fn of_class(name: &str, class: &str) -> Value {
    let mut pod = pod(name, &["sleep", "forever"]);
    pod["spec"]["runtimeClassName"] = class.into();
    pod
}

/// The overhead of a class.
fn overhead() -> Value {
    json!({ "cpu": "50m", "memory": "16Mi" })
}

fn make_class_with_overhead(cluster: &ClusterNode, name: &str, handler: &str) -> Result<()> {
    let class = json!({
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": { "name": name },
        "handler": handler,
        "overhead": { "podFixed": overhead() },
    });
    cluster.api().create(CLASSES, &class).map(drop)
}

/// Checks that the pod has the overhead in its object and in its cgroup.
fn has_overhead(cluster: &ClusterNode, pod: &Value) -> Result<()> {
    ensure!(pod["spec"]["overhead"] == overhead(), "{pod}");
    ensure!(pod["status"]["qosClass"] == "Guaranteed", "{pod}");
    let uid = pod["metadata"]["uid"].as_str().context("a uid")?;
    let is_v2 = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    for [controller, first, of_first, second, of_second] in WITH_OVERHEAD {
        let (path, expected) = if is_v2 {
            (format!("/sys/fs/cgroup/kubepods/pod{uid}/{second}"), of_second)
        } else {
            (format!("/sys/fs/cgroup/{controller}/kubepods/pod{uid}/{first}"), of_first)
        };
        let found = cluster.node().run("cat", &[&path])?;
        ensure!(found.trim() == expected, "{path}: {found}, not {expected}");
    }
    Ok(())
}

fn make_class(cluster: &ClusterNode, name: &str, handler: &str) -> Result<()> {
    let class = json!({
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": { "name": name },
        "handler": handler,
    });
    cluster.api().create(CLASSES, &class).map(drop)
}

/// Creates a pod whose class is deleted before the pod is bound to the node: the API server rejects pods of unknown
/// classes.
fn make_without_class(cluster: &ClusterNode, name: &str) -> Result<()> {
    make_class(cluster, "late", "unconfigured")?;
    let mut pod = of_class(name, "late");
    let node = pod["spec"]["nodeName"].take();
    cluster.api().create(PODS, &pod)?;
    cluster.api().delete(&format!("{CLASSES}/late"))?;
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": { "name": name },
        "target": { "apiVersion": "v1", "kind": "Node", "name": node },
    });
    cluster.api().create(&format!("{}/binding", ClusterNode::pod_path(name)), &binding).map(drop)
}

/// Waits until the status of a pod says that it waits for its sandbox.
fn wait_creating(cluster: &ClusterNode, name: &str) -> Result<()> {
    let waits = cluster.wait_for(&ClusterNode::pod_path(name), "it waits", |pod| {
        let state = &pod?["status"]["containerStatuses"][0]["state"]["waiting"]["reason"];
        (state == "ContainerCreating").then(|| pod.cloned())?
    })?;
    ensure!(waits["status"]["phase"] == "Pending", "{waits}");
    Ok(())
}

pub(super) fn classes(cluster: &ClusterNode, second: &SecondRuntime) -> Result<()> {
    let api = cluster.api();
    make_class_with_overhead(cluster, "other", "second")?;
    make_class(cluster, "lost", "unconfigured")?;
    cluster.wait_for(
        &format!("/api/v1/nodes/{NODE_NAME}"),
        "the node reports its runtime handlers",
        |node| {
            let handlers = node?["status"]["runtimeHandlers"].as_array()?;
            handlers.iter().any(|handler| handler["name"] == "second").then_some(())
        },
    )?;
    ensure!(!second.was_asked(), "no pod uses it yet");
    let mut with_class = of_class("with-class", "other");
    let limits = json!({ "cpu": "100m", "memory": "32Mi" });
    with_class["spec"]["containers"][0]["resources"] = json!({ "limits": limits });
    api.create(PODS, &with_class)?;
    let with_class = cluster.wait_ready(&ClusterNode::pod_path("with-class"))?;
    ensure!(second.was_asked(), "the pod does not use the other runtime");
    has_overhead(cluster, &with_class)?;
    // The class does not exist until it is created below.
    make_without_class(cluster, "with-late")?;
    let reports = "runtimeclass.node.k8s.io \"late\" not found";
    let event = cluster.wait_for_event("with-late", "FailedCreatePodSandBox", reports)?;
    ensure!(event["message"] == format!("Failed to create pod sandbox: {reports}"), "{event}");
    wait_creating(cluster, "with-late")?;
    make_class(cluster, "late", "second")?;
    // The class exists, but its runtime handler does not.
    api.create(PODS, &of_class("with-none", "lost"))?;
    let reports = "no runtime for \"unconfigured\" is configured";
    let event = cluster.wait_for_event("with-none", "FailedCreatePodSandBox", reports)?;
    let message = event["message"].as_str().unwrap_or_default();
    let words = "Failed to create pod sandbox: rpc error: code = Unknown desc = ";
    ensure!(message.starts_with(words), "{event}");
    wait_creating(cluster, "with-none")?;
    cluster.wait_ready(&ClusterNode::pod_path("with-late"))?;
    cluster.remove_pods(&["with-class", "with-none", "with-late"])
}
