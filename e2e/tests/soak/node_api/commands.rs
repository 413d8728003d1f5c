//! The real kubectl through the real API server.

use anyhow::{Context, Result, ensure};
use e2e::agent::Agent;
use e2e::cluster_node::{ClusterNode, NAMESPACE, PODS, pod};
use e2e::node::{NODE_NAME, PATIENCE};
use e2e::node_api::{self, TOOLS, kubectl, kubectl_output};
use e2e::scenarios::kubectl_streams::{attach, copy, debug, resize};
use serde_json::json;
use testbed::wait;

#[test]
fn kubectl_copies_attaches_resizes_and_debugs() -> Result<()> {
    let cluster = node_api::start(Agent::Ferrolet, &[])?;
    node_api::import_tools(cluster.node())?;
    node_api::make_tools(&cluster, "tools")?;
    cluster.node().explained(copy(&cluster, "tools", 100 << 20))?;
    cluster.node().explained(attach(&cluster))?;
    cluster.node().explained(resize(&cluster, "tools"))?;
    cluster.node().explained(debug(&cluster, "tools", TOOLS))?;
    // The log has the user of each request.
    let why = cluster.node().ferrolet(&["why", &format!("{NAMESPACE}/tools")])?;
    for part in ["exec", "attach", "doctor", "tar"] {
        ensure!(why.contains(part), "{part} is not in:\n{why}");
    }
    cluster.stop()
}

/// A pod with two containers: one prints five numbered lines and ends, and is started again; the other prints to
/// standard error.
fn make_talker(cluster: &ClusterNode) -> Result<()> {
    let mut talker = pod("talker", &["logs", "--rate", "max", "--count", "5"]);
    talker["spec"]["containers"] = json!([
        talker["spec"]["containers"][0],
        { "name": "errors", "image": e2e::cluster_node::IMAGE,
          "args": ["logs", "--rate", "1", "--stderr"] },
    ]);
    cluster.api().create(PODS, &talker)?;
    cluster.wait_for(&ClusterNode::pod_path("talker"), "it was started again", |pod| {
        let statuses = pod?["status"]["containerStatuses"].as_array()?;
        let main = statuses.iter().find(|status| status["name"] == "main")?;
        (main["restartCount"].as_i64()? > 0).then_some(())
    })
}

#[test]
fn kubectl_logs_has_every_flag() -> Result<()> {
    let cluster = node_api::start(Agent::Ferrolet, &[])?;
    make_talker(&cluster)?;
    let logs = |args: &[&str]| kubectl(&cluster, &[&["logs", "talker"], args].concat());
    let whole = "0\n1\n2\n3\n4\n";
    wait::until("the log is whole", PATIENCE, || {
        let log = logs(&["-c", "main"])?;
        Ok(if log == whole { Ok(()) } else { Err(log) })
    })?;
    ensure!(logs(&["-c", "main", "--previous"])? == whole);
    ensure!(logs(&["-c", "main", "--tail=2"])? == "3\n4\n");
    ensure!(logs(&["-c", "main", "--tail=0"])?.is_empty());
    ensure!(logs(&["-c", "main", "--tail=-1"])? == whole);
    ensure!(logs(&["-c", "main", "--limit-bytes=3"])? == "0\n1");
    ensure!(logs(&["-c", "main", "--since=1h"])? == whole);
    ensure!(logs(&["-c", "main", "--since-time=2020-01-01T00:00:00Z"])? == whole);
    ensure!(logs(&["-c", "main", "--since-time=2100-01-01T00:00:00Z"])?.is_empty());
    let stamped = logs(&["-c", "main", "--timestamps", "--tail=1"])?;
    let (time, line) = stamped.split_once(' ').context("a time")?;
    ensure!(line == "4\n" && time.parse::<jiff::Timestamp>().is_ok(), "{stamped:?}");
    let all = logs(&["--all-containers", "--prefix", "--tail=1"])?;
    ensure!(all.contains("[pod/talker/main] 4\n") && all.contains("[pod/talker/errors] "), "{all}");
    let followed = logs(&["-c", "main", "-f", "--previous"])?;
    ensure!(followed == whole, "{followed}");
    let mut logs_child =
        node_api::spawn_kubectl(&cluster, &["logs", "talker", "-c", "errors", "-f"])?;
    let mut output = logs_child.0.stdout.take().context("its output")?;
    let mut lines = [0; 12];
    std::io::Read::read_exact(&mut output, &mut lines).context("follow a log")?;
    ensure!(&lines == b"0\n1\n2\n3\n4\n5\n", "{lines:?}");
    drop(logs_child);
    let none = kubectl_output(&cluster, &["logs", "talker", "-c", "none"])?;
    ensure!(!none.status.success(), "{none:?}");
    cluster.stop()
}

#[test]
fn kubectl_gets_each_path() -> Result<()> {
    let cluster = node_api::start(Agent::Ferrolet, &[])?;
    cluster.make_pod("web", &["serve", "8080"])?;
    cluster.wait_ready(&ClusterNode::pod_path("web"))?;
    let served = [
        ("healthz", "ok"),
        ("healthz/ping", "ok"),
        ("healthz/log", "ok"),
        ("healthz/syncloop", "ok"),
        ("healthz?verbose", "healthz check passed"),
        ("pods", "\"name\":\"web\""),
        ("runningpods/", "\"name\":\"web\""),
        ("configz", "\"kubeletconfig\""),
        ("metrics", "kubelet_http_requests_total{"),
        ("metrics/slis", "kubernetes_healthcheck{"),
        ("logs/", "<a href=\"pods/\">pods/</a>"),
        ("logs/pods/", "<a href=\"shop_web_"),
        ("statusz", "Binary version: "),
        ("flagz", "hostname-override=e2e"),
        ("containerLogs/shop/web/main", "serving 8080"),
        ("stats/summary", "\"nodeName\":\""),
        ("metrics/cadvisor", "container_memory_working_set_bytes{"),
        ("metrics/resource", "container_cpu_usage_seconds_total{"),
    ];
    let raw = |path: &str| {
        let path = format!("/api/v1/nodes/{NODE_NAME}/proxy/{path}");
        kubectl_output(&cluster, &["get", "--raw", &path])
    };
    for (path, part) in served {
        let output = raw(path)?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success() && text.contains(part), "{path}: {output:?}");
    }
    ensure!(raw("metrics/probes")?.status.success());
    let refused = [
        ("debug/pprof/heap", "profiling endpoint is disabled"),
        ("debug/flags/v", "unsupported http method"),
        ("checkpoint/shop/web/main", "405"),
        ("none", "404"),
    ];
    for (path, part) in refused {
        let output = raw(path)?;
        let text = String::from_utf8_lossy(&output.stderr);
        let is_refused = !output.status.success();
        ensure!(
            is_refused && (text.contains(part) || text.contains("Error from server")),
            "{path}: {output:?}"
        );
    }
    cluster.stop()
}
