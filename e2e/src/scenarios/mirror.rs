//! The mirror pod of a static pod.

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::cluster_node::ClusterNode;
use crate::node::{NODE_NAME, PATIENCE};

/// A static pod.
pub const MANIFEST: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: fixed
spec:
  terminationGracePeriodSeconds: 5
  containers:
  - name: main
    image: ferrolet.test/workload:1
    args: [sleep, forever]
";

/// Waits until a mirror pod was recreated for the same version of the static pod, and is ready.
fn made_anew(cluster: &ClusterNode, path: &str, former: &Value) -> Result<Value> {
    // Upstream recreates it with the next sync of the pod, which may take longer than a minute.
    let made = cluster.api().wait(path, "it is recreated", 3 * PATIENCE, |mirror| {
        (mirror?["metadata"]["uid"] != former["metadata"]["uid"]).then_some(())
    });
    cluster.node().explained(made)?;
    let anew = cluster.wait_ready(path)?;
    ensure!(anew["metadata"]["deletionTimestamp"].is_null(), "{anew}");
    let marks = |mirror: &Value| mirror["metadata"]["annotations"].clone();
    for mark in ["hash", "mirror", "source"] {
        let mark = format!("kubernetes.io/config.{mark}");
        let (before, now) = (marks(former)[&mark].clone(), marks(&anew)[&mark].clone());
        ensure!(now.is_string() && now == before, "{mark}: {before} became {now}");
    }
    let status = |mirror: &Value| mirror["status"]["containerStatuses"][0].clone();
    ensure!(status(&anew) == status(former), "{} became {}", status(former), status(&anew));
    Ok(anew)
}

/// A static pod has a mirror pod, which is recreated when it is deleted.
pub(super) fn mirror(cluster: &ClusterNode) -> Result<()> {
    cluster.node().write_manifest("fixed.yaml", MANIFEST)?;
    let path = format!("/api/v1/namespaces/default/pods/fixed-{NODE_NAME}");
    let mirror = cluster.wait_ready(&path)?;
    let marks = &mirror["metadata"]["annotations"];
    for mark in ["hash", "mirror", "seen", "source"] {
        ensure!(marks[format!("kubernetes.io/config.{mark}")].is_string(), "{mark}: {marks}");
    }
    let owner = &mirror["metadata"]["ownerReferences"][0];
    ensure!(owner["kind"] == "Node" && owner["name"] == NODE_NAME, "{owner}");
    let container = cluster.node().wait_running("fixed")?;
    cluster.look_at(&mirror)?;

    // Deleting the mirror pod, gracefully or at once, does not delete the static pod.
    cluster.api().delete(&path)?;
    let second = made_anew(cluster, &path, &mirror)?;
    ensure!(cluster.node().wait_running("fixed")?.id == container.id, "the pod was restarted");
    cluster.api().delete_with_grace(&path, 0)?;
    let third = made_anew(cluster, &path, &second)?["metadata"]["uid"].clone();
    ensure!(cluster.node().wait_running("fixed")?.id == container.id, "the pod was restarted");

    let edited = MANIFEST.replace("GracePeriodSeconds: 5", "GracePeriodSeconds: 6");
    cluster.node().write_manifest("fixed.yaml", &edited)?;
    cluster.wait_for(&path, "the next version is shown", |mirror| {
        let mirror = mirror?;
        let grace = &mirror["spec"]["terminationGracePeriodSeconds"];
        (mirror["metadata"]["uid"] != third && *grace == 6).then_some(())
    })?;
    cluster.wait_ready(&path)?;

    cluster.node().remove_manifest("fixed.yaml")?;
    cluster.wait_gone(&path, PATIENCE)
}
