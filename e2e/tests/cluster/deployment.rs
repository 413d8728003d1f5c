//! `deploy/pod-gc`, on a real API server.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use e2e::cluster::Cluster;
use serde_json::json;
use testbed::{ControlPlaneOptions, Instance};

/// The deployed objects, as kubectl names them.
const OBJECTS: [&str; 7] = [
    "clusterrole.rbac.authorization.k8s.io/ferrolet-pod-gc",
    "clusterrolebinding.rbac.authorization.k8s.io/ferrolet-pod-gc",
    "clusterrolebinding.rbac.authorization.k8s.io/ferrolet-pod-gc-auth-delegator",
    "deployment.apps/ferrolet-pod-gc",
    "role.rbac.authorization.k8s.io/ferrolet-pod-gc-leader-election",
    "rolebinding.rbac.authorization.k8s.io/ferrolet-pod-gc-leader-election",
    "serviceaccount/ferrolet-pod-gc",
];

/// The Deployment among them.
pub(crate) const DEPLOYMENT: &str =
    "/apis/apps/v1/namespaces/kube-system/deployments/ferrolet-pod-gc";

/// kubectl's output for all of them, sorted by name.
fn all(what: &str) -> Vec<String> {
    OBJECTS.iter().map(|object| format!("{object} {what}")).collect()
}

/// Copies the deployment to a directory that a cluster's instance sees; returns its path.
pub(crate) fn shown_to(instance: &Instance) -> Result<String> {
    let seen = instance.dir().join("deploy");
    fs::create_dir_all(&seen)?;
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/pod-gc");
    for file in fs::read_dir(&files).with_context(|| format!("read {}", files.display()))? {
        let file = file?;
        fs::copy(file.path(), seen.join(file.file_name()))?;
    }
    Ok(seen.display().to_string())
}

// behaviour: PGC-136
#[test]
fn api_server_accepts_all_deployed_objects_and_a_pod_of_the_deployment() -> Result<()> {
    let cluster = Cluster::start(&ControlPlaneOptions::default())?;
    let seen = shown_to(cluster.instance())?;
    let apply = |more: &[&str]| -> Result<Vec<String>> {
        let output = cluster.kubectl(&[&["apply", "-k", &seen][..], more].concat())?;
        let mut lines: Vec<String> = output.lines().map(ToOwned::to_owned).collect();
        lines.sort();
        Ok(lines)
    };
    let output = apply(&["--dry-run=server"])?;
    ensure!(output == all("created (server dry run)"), "{output:#?}");
    let output = apply(&[])?;
    ensure!(output == all("created"), "{output:#?}");
    let output = apply(&[])?;
    ensure!(output == all("unchanged"), "{output:#?}");
    // The pod that a controller would create from it.
    let deployment = cluster.api().get(DEPLOYMENT)?.context("it is there")?;
    let template = &deployment["spec"]["template"];
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
        "metadata": { "name": "ferrolet-pod-gc-0", "labels": template["metadata"]["labels"] },
    });
    let made = cluster.api().create("/api/v1/namespaces/kube-system/pods?dryRun=All", &pod)?;
    ensure!(made["spec"]["priorityClassName"] == "system-cluster-critical", "{made:#}");
    cluster.stop()
}
