//! Pods that ask for another runtime than the usual one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::Cache;

use crate::cluster_node::{ClusterNode, PODS, pod};
use crate::node::NODE_NAME;

const CLASSES: &str = "/apis/node.k8s.io/v1/runtimeclasses";

/// A runtime that is the usual one, but notes that it was asked. Its files go with it.
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
            .context("let it be run")?;
        Ok(second)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What containerd must know of it.
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
        fs::read_to_string(self.file("asked")).is_ok_and(|asked| asked.contains(" create "))
    }
}

fn of_class(name: &str, class: &str) -> Value {
    let mut pod = pod(name, &["sleep", "forever"]);
    pod["spec"]["runtimeClassName"] = class.into();
    pod
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

/// Makes a pod whose class is gone by the time it comes to the node: the API server takes none whose class it does
/// not know.
fn make_without_class(cluster: &ClusterNode, name: &str) -> Result<()> {
    make_class(cluster, "late", "nobody")?;
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

/// Waits until a pod is told to wait for its sandbox.
fn wait_creating(cluster: &ClusterNode, name: &str) -> Result<()> {
    let waits = cluster.wait_for(&ClusterNode::pod_path(name), "it waits", |pod| {
        let state = &pod?["status"]["containerStatuses"][0]["state"]["waiting"]["reason"];
        (state == "ContainerCreating").then(|| pod.cloned())?
    })?;
    ensure!(waits["status"]["phase"] == "Pending", "{waits}");
    Ok(())
}

// behaviour: OBJ-20, OBJ-21, OBJ-24
pub(super) fn classes(cluster: &ClusterNode, second: &SecondRuntime) -> Result<()> {
    let api = cluster.api();
    for (name, handler) in [("other", "second"), ("lost", "nobody")] {
        make_class(cluster, name, handler)?;
    }
    cluster.wait_for(
        &format!("/api/v1/nodes/{NODE_NAME}"),
        "the node tells its runtimes",
        |node| {
            let handlers = node?["status"]["runtimeHandlers"].as_array()?;
            handlers.iter().any(|handler| handler["name"] == "second").then_some(())
        },
    )?;
    ensure!(!second.was_asked(), "nobody was to ask for it yet");
    api.create(PODS, &of_class("with-class", "other"))?;
    cluster.wait_ready(&ClusterNode::pod_path("with-class"))?;
    ensure!(second.was_asked(), "the pod runs by another runtime");
    // There is no class of that name, until somebody makes it.
    make_without_class(cluster, "with-late")?;
    let says = "runtimeclass.node.k8s.io \"late\" not found";
    let event = cluster.wait_for_event("with-late", "FailedCreatePodSandBox", says)?;
    ensure!(event["message"] == format!("Failed to create pod sandbox: {says}"), "{event}");
    wait_creating(cluster, "with-late")?;
    make_class(cluster, "late", "second")?;
    // The class is there, and the runtime that it names is not.
    api.create(PODS, &of_class("with-none", "lost"))?;
    let says = "no runtime for \"nobody\" is configured";
    let event = cluster.wait_for_event("with-none", "FailedCreatePodSandBox", says)?;
    let message = event["message"].as_str().unwrap_or_default();
    let words = "Failed to create pod sandbox: rpc error: code = Unknown desc = ";
    ensure!(message.starts_with(words), "{event}");
    wait_creating(cluster, "with-none")?;
    cluster.wait_ready(&ClusterNode::pod_path("with-late"))?;
    cluster.remove_pods(&["with-class", "with-none", "with-late"])
}
