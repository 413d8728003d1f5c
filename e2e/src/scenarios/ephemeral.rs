//! Ephemeral containers.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::api::Patch;
use crate::cluster_node::{ClusterNode, IMAGE, NAMESPACE};

pub(super) fn ephemeral(cluster: &ClusterNode) -> Result<()> {
    cluster.make_pod("patient", &["sleep", "forever"])?;
    let path = ClusterNode::pod_path("patient");
    let before = cluster.wait_ready(&path)?;
    let debug = ["debug", "pod/patient", "-n", NAMESPACE, "--image", IMAGE, "--attach=false"];
    let target = ["--target", "main"];
    let rest = ["-c", "doctor", "--", "/workload", "sleep", "forever"];
    cluster.kubectl(&[&debug[..], &target[..], &rest[..]].concat())?;
    let status = |pod: &Value, name: &str| {
        let all = pod["status"]["ephemeralContainerStatuses"].as_array();
        let mut all = all.into_iter().flatten();
        all.find(|status| status["name"] == name).cloned()
    };
    cluster.wait_for(&path, "the debug container runs", |pod| {
        let doctor = status(pod?, "doctor")?;
        (!doctor["state"]["running"].is_null()).then_some(())
    })?;
    let sees = |name: &str| -> Result<String> {
        let all = cluster.containers("patient")?;
        let one = all.iter().find(|one| one.name == name).context("it is not there")?;
        cluster.node().run("readlink", &[&format!("/proc/{}/ns/pid", one.pid)])
    };
    ensure!(
        sees("main")? == sees("doctor")?,
        "the debug container does not see the target's processes"
    );
    // Another one, which ends and is not restarted.
    let visitor = json!({ "name": "visitor", "image": IMAGE, "args": ["exit", "5"] });
    let change = json!({ "spec": { "ephemeralContainers": [visitor] } });
    cluster.api().patch(&format!("{path}/ephemeralcontainers"), Patch::Strategic, &change)?;
    let after = cluster.wait_for(&path, "the visitor has ended", |pod| {
        let visitor = status(pod?, "visitor")?;
        (visitor["state"]["terminated"]["exitCode"] == 5).then(|| pod.cloned())?
    })?;
    let id = |pod: &Value| pod["status"]["containerStatuses"][0]["containerID"].clone();
    ensure!(id(&before) == id(&after), "the target was restarted");
    ensure!(after["status"]["phase"] == "Running", "{after}");
    ensure!(after["status"]["observedGeneration"] == after["metadata"]["generation"], "{after}");
    let names = cluster.containers("patient")?;
    let visitors = names.iter().filter(|one| one.name == "visitor").count();
    ensure!(visitors == 1, "the visitor started {visitors} times");
    cluster.remove_pod("patient")
}
