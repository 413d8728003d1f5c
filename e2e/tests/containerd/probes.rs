//! A static pod whose containers are probed by command, HTTP, TCP and gRPC.

use anyhow::{Context as _, Result, ensure};
use e2e::node::{NODE_NAME, Node, PATIENCE, program};
use serde_json::Value;
use testbed::wait;

const POD: &str = r"
apiVersion: v1
kind: Pod
metadata:
  name: probed
  annotations: {ferrolet.dev/startup-probe-period: 100ms}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: health, emptyDir: {}}]
  containers:
  - name: web
    image: ferrolet.test/workload:1
    args: [serve, '8080']
    ports: [{name: http, containerPort: 8080}]
    lifecycle: {postStart: {exec: {command: [/workload, write, /health/ok, 'yes']}}}
    startupProbe: {tcpSocket: {port: http}, failureThreshold: 30}
    readinessProbe: {httpGet: {port: http, path: '/ready?now'}, periodSeconds: 1}
    livenessProbe: {exec: {command: [/workload, cat, /health/ok]}, periodSeconds: 1}
    volumeMounts: [{name: health, mountPath: /health}]
  - name: rpc
    image: ferrolet.test/workload:1
    args: [grpc, '9090']
    readinessProbe: {grpc: {port: 9090}, periodSeconds: 1}
    livenessProbe: {grpc: {port: 9090, service: shop}, periodSeconds: 1}
  - name: stuck
    image: ferrolet.test/workload:1
    args: [sleep, forever]
    readinessProbe: {exec: {command: [/workload, sleep, 1234s]}, periodSeconds: 1}
";

/// The status of a container in the output of the agent.
fn container(node: &Node, name: &str) -> Result<Value> {
    let listed = node.wait_for_answer(&["get", "pods", "-o", "json"], "containerStatuses")?;
    let listed: Value = serde_json::from_str(&listed).with_context(|| listed.clone())?;
    let pods = listed["items"].as_array().into_iter().flatten();
    let statuses = pods.filter_map(|pod| pod["status"]["containerStatuses"].as_array());
    let found = statuses.flatten().find(|status| status["name"] == name).cloned();
    Ok(found.unwrap_or_default())
}

fn until(node: &Node, what: &str, is_so: impl Fn(&Node) -> Result<bool>) -> Result<()> {
    let look = || Ok(if is_so(node)? { Ok(()) } else { Err(String::new()) });
    node.explained(wait::until(what, PATIENCE, look))
}

/// The number of running commands of timed-out probes.
fn hung_commands(node: &Node) -> Result<usize> {
    let processes = node.run("ps", &["-eo", "args"])?;
    Ok(processes.lines().filter(|line| line.contains("sleep 1234s")).count())
}

// behaviour: PRB-22, PRB-23
#[test]
fn probe_handlers_work_and_a_failed_liveness_probe_restarts_the_container() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("probed.yaml", POD)?;
    node.start_agent()?;
    for name in ["web", "rpc"] {
        until(&node, "the container is ready", |node| Ok(container(node, name)?["ready"] == true))?;
    }
    let pod = format!("probed-{NODE_NAME}");
    let description = node.wait_for_answer(&["describe", &pod], "timed out after 1s")?;
    let lines = [
        "Last Result:",
        "exec [/workload cat /health/ok]",
        "http-get http://:http/ready?now",
        "grpc <pod>:9090",
    ];
    for line in lines {
        ensure!(description.contains(line), "{line} is not in {description}");
    }
    // A command has a second. One more may have just begun.
    ensure!(hung_commands(&node)? <= 1, "commands of timed-out probes are left");
    ensure!(container(&node, "stuck")?["ready"] == false);

    node.kill_agent()?;
    node.start_agent()?;
    node.wait_for_log(&["Pod synced", "probed"])?;
    ensure!(container(&node, "web")?["ready"] == true, "a restart of the agent keeps readiness");

    let (ferrolet, root) = (program("ferrolet")?, node.root_dir());
    let (ferrolet, root) = (ferrolet.display().to_string(), root.display().to_string());
    let remove = ["/workload", "remove", "/health/ok"];
    let exec = ["exec", "--root-dir", &root, &pod, "-c", "web", "--"];
    node.run(&ferrolet, &[&exec[..], &remove].concat())?;
    until(&node, "the container was restarted", |node| {
        let web = container(node, "web")?;
        Ok(web["restartCount"] == 1 && web["ready"] == true)
    })?;
    let end = container(&node, "web")?["lastState"]["terminated"]["message"].to_string();
    ensure!(end.contains("failed liveness probe: 3 failures in a row"), "{end}");
    let why = node.ferrolet(&["why", &pod])?;
    ensure!(why.contains("liveness probe failed 3 times in a row"), "{why}");
    node.stop()
}
