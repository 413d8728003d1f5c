//! The two collectors: our controller, and that of the controller manager.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use e2e::api::{Api, Patch};
use e2e::cluster::Cluster;
use e2e::node::program;
use e2e::plane::Plane;
use serde_json::json;
use testbed::{Command, Component, Process, User};

use crate::objects::pod;
use crate::scenario::FINALIZER;

/// The timeout of a pass: upstream starts one every 20 s.
const PASS: Duration = Duration::from_mins(3);

/// For tests without upstream's controller.
pub(crate) const FREQUENT_PASSES: &str = "--gc-check-period=1s";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Collector {
    /// Ours.
    Ferrolet,
    /// The controller manager with only this controller.
    ControllerManager,
}

impl Collector {
    /// Starts it with this threshold of terminated pods.
    pub(crate) fn start(self, cluster: &mut Cluster, threshold: u32) -> Result<()> {
        let threshold = format!("--terminated-pod-gc-threshold={threshold}");
        match self {
            Self::Ferrolet => {
                let kubeconfig = deployed(cluster)?;
                start_pod_gc(cluster, "pod-gc", &kubeconfig, &[&threshold])?;
            }
            Self::ControllerManager => {
                let flags =
                    ["--controllers=pod-garbage-collector-controller".to_owned(), threshold];
                cluster
                    .control_plane_mut()
                    .start_component(Component::ControllerManager, &flags)?;
            }
        }
        Ok(())
    }
}

/// Gives our controller the rights of its deployment; returns a kubeconfig with only these.
pub(crate) fn deployed(cluster: &Cluster) -> Result<PathBuf> {
    let rbac = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/pod-gc/rbac.yaml");
    // A directory that the cluster's instance sees, wherever the work tree is.
    let seen = cluster.instance().dir().join("rbac.yaml");
    std::fs::copy(&rbac, &seen).with_context(|| format!("read {}", rbac.display()))?;
    cluster.kubectl(&["apply", "-f", &seen.display().to_string()])?;
    // The user name of the service account.
    cluster.kubeconfig(&User::new("system:serviceaccount:kube-system:ferrolet-pod-gc"))
}

/// Starts our controller inside the cluster's instance.
pub(crate) fn start_pod_gc(
    cluster: &Cluster,
    name: &str,
    kubeconfig: &Path,
    flags: &[&str],
) -> Result<Process> {
    let command = Command::new(program("ferrolet")?.display().to_string())
        .args(["pod-gc", "--secure-port=0", "--kubeconfig", &kubeconfig.display().to_string()])
        .args(["--state-dir", &cluster.instance().dir().join(name).display().to_string()])
        .args(flags.iter().copied());
    Ok(cluster.instance().spawn(name, &command)?)
}

/// Waits for a complete pass: the last step of a pass deletes a pod that is created here.
pub(crate) fn wait_for_a_pass(plane: &Plane, namespace: &str) -> Result<()> {
    let api = plane.api();
    let collection = format!("/api/v1/namespaces/{namespace}/pods");
    let path = format!("{collection}/last");
    let mut last = pod("last", None);
    last["metadata"]["finalizers"] = json!([FINALIZER]);
    // It never gets a node, even with a scheduler.
    last["spec"]["schedulerName"] = json!("missing");
    api.create(&collection, &last)?;
    api.delete(&path)?;
    api.wait(&path, "a pass runs", PASS, |pod| {
        (pod?["status"]["phase"] == "Failed").then_some(())
    })?;
    api.patch(&path, Patch::Merge, &json!({ "metadata": { "finalizers": null } }))?;
    Ok(())
}

/// Adds the end of a controller's log to an error.
pub(crate) fn explained<T>(result: Result<T>, process: &Process) -> Result<T> {
    result.with_context(|| {
        let log = process.log();
        let lines: Vec<&str> = log.lines().collect();
        format!("the end of its log:\n{}", lines[lines.len().saturating_sub(25)..].join("\n"))
    })
}

/// The leader.
pub(crate) fn holder(api: &Api) -> Result<Option<String>> {
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/ferrolet-pod-gc";
    let lease = api.get(lease)?.unwrap_or_default();
    Ok(lease["spec"]["holderIdentity"].as_str().map(ToOwned::to_owned))
}
