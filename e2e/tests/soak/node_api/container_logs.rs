//! `kubectl logs` of a container whose log is rotated all the time, and of logs that a pod has replaced by links.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::agent::Agent;
use e2e::cluster_node::{ClusterNode, PODS, log_directory, pod};
use e2e::log_writer::{self, LogWriter};
use e2e::node::NODE_NAME;
use e2e::node_api::{self, TOOLS, kubectl, kubectl_output};
use serde_json::json;

#[test]
fn kubectl_logs_has_no_gap_after_a_minute_of_20_megabytes_a_second() -> Result<()> {
    let time = Duration::from_mins(1);
    let cluster = node_api::start(Agent::Ferrolet, &[])?;
    let args = log_writer::args(time);
    let mut writer = pod("writer", &args.each_ref().map(String::as_str));
    writer["spec"]["restartPolicy"] = "Never".into();
    let made = cluster.api().create(PODS, &writer)?;
    let writer = LogWriter::of_pod(cluster.node(), &made, time);
    cluster.node().explained(writer.check_until_it_ends())?;
    let over = cluster.wait_over(&ClusterNode::pod_path("writer"))?;
    ensure!(over["status"]["phase"] == "Succeeded", "{over}");
    cluster.node().explained(writer.check_text(&kubectl(&cluster, &["logs", "writer"])?))?;
    cluster.stop()
}

/// The start of the file on the node that the attacker's links point to.
const SECRET: &str = "root:";

/// A pod that has the node's logs as a volume.
fn make_attacker(cluster: &ClusterNode) -> Result<String> {
    let mut attacker = pod("attacker", &["sleep", "forever"]);
    let spec = &mut attacker["spec"];
    spec["volumes"] = json!([{ "name": "logs", "hostPath": { "path": "/var/log" } }]);
    let container = &mut spec["containers"][0];
    container["image"] = TOOLS.into();
    container["volumeMounts"] = json!([{ "name": "logs", "mountPath": "/host" }]);
    cluster.api().create(PODS, &attacker)?;
    let attacker = cluster.wait_ready(&ClusterNode::pod_path("attacker"))?;
    Ok(log_directory(&attacker))
}

/// Checks that an attempt to read a file through a link fails, and shows no content.
fn is_refused(cluster: &ClusterNode, args: &[&str]) -> Result<()> {
    let output = kubectl_output(cluster, args)?;
    let shown = String::from_utf8_lossy(&output.stdout);
    ensure!(!shown.contains(SECRET), "kubectl {args:?} shows {shown}");
    // Of an unreadable log, upstream sends this text as the log.
    let is_refused = !output.status.success()
        || shown.starts_with("unable to retrieve container logs for containerd://");
    ensure!(is_refused, "kubectl {args:?}: {output:?}");
    Ok(())
}

#[test]
fn links_in_the_place_of_logs_are_refused_when_a_pod_writes_to_var_log() -> Result<()> {
    let cluster = node_api::start(Agent::Ferrolet, &[])?;
    node_api::import_tools(cluster.node())?;
    let directory = make_attacker(&cluster)?;
    kubectl(&cluster, &["logs", "attacker"]).context("its own log can be read")?;
    let inside = directory.replace("/var/log", "/host");
    // The links go through the volume, as those that the pod itself makes.
    let attacker = cluster.running("attacker")?;
    let through = |path: &str| format!("/proc/{}/root{path}", attacker.pid);
    let link =
        |place: &str, target: &str| cluster.node().run("ln", &["-sfn", target, &through(place)]);
    ensure!(cluster.node().read("/etc/shadow")?.contains(SECRET), "there is something to read");

    link(&format!("{inside}/main/0.log"), "/etc/shadow")?;
    is_refused(&cluster, &["logs", "attacker"])?;
    is_refused(&cluster, &["logs", "attacker", "--tail=1"])?;
    is_refused(&cluster, &["logs", "attacker", "--since=1h"])?;
    let raw = |path: &str| format!("/api/v1/nodes/{NODE_NAME}/proxy/logs/{path}");
    let below = directory.strip_prefix("/var/log/").context("a log is in /var/log")?;
    is_refused(&cluster, &["get", "--raw", &raw(&format!("{below}/main/0.log"))])?;

    link("/host/shadow.log", "/etc/shadow")?;
    link("/host/etc", "/etc")?;
    for path in ["shadow.log", "etc/shadow", "etc/", "..%2f..%2fetc%2fshadow"] {
        is_refused(&cluster, &["get", "--raw", &raw(path)])?;
    }
    // A link in the place of a directory leads to a file that looks like a log.
    let record = format!("2026-11-19T00:00:00Z stdout F {SECRET}");
    let other = format!("mkdir /var/lib/other && echo '{record}' > /var/lib/other/0.log");
    cluster.node().run("sh", &["-c", &other])?;
    cluster.node().run("rm", &["-r", &through(&format!("{inside}/main"))])?;
    link(&format!("{inside}/main"), "/var/lib/other")?;
    is_refused(&cluster, &["logs", "attacker"])?;
    cluster.stop()
}
