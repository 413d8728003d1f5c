//! Streams do not slow the agent: copies at full speed and many followers of logs delay neither its lease nor the
//! restart of a container that dies.
//!
//! Clients have the lowest priority, so that they take only the time of processors that is left. The API server, the
//! runtime and the agent have the usual one.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::agent::Agent;
use e2e::cluster_node::{ClusterNode, NAMESPACE};
use e2e::cri_proxy::CriProxy;
use e2e::node::{NODE_NAME, PATIENCE};
use e2e::node_api::{self, kubectl_words};
use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use testbed::{ControlPlaneOptions, Options, wait};

/// Containers that die, without load and with it.
const DEATHS: usize = 9;
/// The number of measured lease renewals.
const RENEWALS: usize = 15;
/// How often the agent renews its lease: a quarter of its duration.
const PERIOD: f64 = 1.0;
const COPIES: usize = 4;
const FOLLOWERS: usize = 200;
/// By how much the median of a delay may grow, in seconds.
const LIMIT: f64 = 0.020;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The delay of each renewal of the lease beyond its period.
fn lease_delays(cluster: &ClusterNode) -> Result<Vec<f64>> {
    let lease =
        format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE_NAME}");
    let mut times: Vec<Timestamp> = Vec::new();
    cluster.api().watch(&lease, "the lease is renewed", PATIENCE, |lease| {
        let time = lease["spec"]["renewTime"].as_str()?.parse().ok()?;
        if times.last() != Some(&time) {
            times.push(time);
        }
        (times.len() > RENEWALS).then_some(())
    })?;
    let pairs = times.windows(2);
    Ok(pairs.map(|pair| (pair[1].duration_since(pair[0]).as_secs_f64() - PERIOD).abs()).collect())
}

/// The time from each death to the call that creates the next container.
fn restart_delays(cluster: &ClusterNode, proxy: &CriProxy, pods: &[String]) -> Result<Vec<f64>> {
    let death = |pod: &String| -> Result<f64> {
        let container = cluster.running(pod)?;
        let pid = host_pid(cluster, &container.id)?;
        let killed = Timestamp::now();
        kill_process(pid, Signal::KILL).context("kill a container")?;
        let created = wait::every(wait::OFTEN, "another container is created", PATIENCE, || {
            let arrivals = proxy.arrivals("CreateContainer")?;
            let after = arrivals.into_iter().find(|time| *time >= killed);
            Ok(after.ok_or_else(|| "none is".to_owned()))
        })?;
        // The next death is distinguishable from this one.
        cluster.wait_ready(&ClusterNode::pod_path(pod))?;
        thread::sleep(Duration::from_millis(500));
        Ok(created.duration_since(killed).as_secs_f64())
    };
    pods.iter().map(death).collect()
}

/// The host's pid of the first process of a container, by the name of its cgroup.
fn host_pid(cluster: &ClusterNode, container: &str) -> Result<Pid> {
    let found = Command::new("sh")
        .args(["-c", "grep -l \"$1\" /proc/[0-9]*/cgroup 2>/dev/null | head -n 1", "sh", container])
        .output()?;
    let path = String::from_utf8_lossy(&found.stdout);
    let pid = path.split('/').nth(2).and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    cluster.node().explained(pid.with_context(|| format!("container {container} has no process")))
}

/// A client with all its processes, which are killed when the value is dropped.
struct Client(Child);

impl Drop for Client {
    fn drop(&mut self) {
        // They may have ended already.
        _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        _ = self.0.wait();
    }
}

/// Starts a kubectl command with the lowest priority; its output is dropped.
fn load(cluster: &ClusterNode, script: &str, args: &[&str]) -> Result<Client> {
    let words = kubectl_words(cluster, args)?;
    let child = Command::new("setsid")
        .args(["nice", "-n", "19", "sh", "-c", script, "sh"])
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("start a client")?;
    Ok(Client(child))
}

/// Copies a large file to and from a pod, again and again, and follows logs by many connections.
fn start_load(cluster: &ClusterNode) -> Result<Vec<Client>> {
    let directory = cluster.node().instance().dir().display().to_string();
    let large = format!("{directory}/large");
    let made = Command::new("head").args(["-c", "200M", "/dev/zero"]).output()?;
    std::fs::write(&large, made.stdout)?;
    let mut running = Vec::new();
    for number in 0..COPIES {
        let there = format!("{NAMESPACE}/tools:/tmp/copy-{number}");
        let here = format!("{directory}/copy-{number}");
        let args = if number % 2 == 0 { [&large, &there] } else { [&there, &here] };
        if number % 2 == 1 {
            node_api::kubectl(cluster, &["cp", &large, &there])?;
        }
        running.push(load(cluster, "while \"$@\"; do :; done", &["cp", args[0], args[1]])?);
    }
    for _ in 0..FOLLOWERS / 10 {
        // Ten connections each: as many separate clients would need more memory than everything else.
        let names = "deaths=follow";
        let args = ["logs", "-f", "-l", names, "--max-log-requests=10", "--prefix"];
        running.push(load(cluster, "exec \"$@\"", &args)?);
    }
    Ok(running)
}

fn make_pods(
    cluster: &ClusterNode,
    name: &str,
    count: usize,
    args: &[&str],
) -> Result<Vec<String>> {
    let names: Vec<String> = (0..count).map(|number| format!("{name}-{number}")).collect();
    for each in &names {
        let mut pod = e2e::cluster_node::pod(each, args);
        pod["metadata"]["labels"]["deaths"] = name.into();
        cluster.api().create(e2e::cluster_node::PODS, &pod)?;
    }
    names.iter().try_for_each(|each| cluster.wait_ready(&ClusterNode::pod_path(each)).map(drop))?;
    Ok(names)
}

#[test]
fn streams_delay_neither_the_lease_nor_restarts() -> Result<()> {
    let options = ControlPlaneOptions::default();
    let mut cluster = ClusterNode::start_with(&Options::default(), &options, Agent::Ferrolet)?;
    let proxy = cluster.put_proxy_before_runtime("nodeLeaseDurationSeconds: 4\n")?;
    node_api::serve(&mut cluster, &[])?;
    node_api::import_tools(cluster.node())?;
    node_api::make_tools(&cluster, "tools")?;
    let quiet = make_pods(&cluster, "quiet", DEATHS, &["sleep", "forever"])?;
    let loaded = make_pods(&cluster, "loaded", DEATHS, &["sleep", "forever"])?;
    make_pods(&cluster, "follow", 10, &["logs", "--rate", "1"])?;

    let lease = median(lease_delays(&cluster)?);
    let restart = median(restart_delays(&cluster, &proxy, &quiet)?);
    let clients = start_load(&cluster)?;
    wait::until("all logs are followed", PATIENCE, || {
        let metrics = cluster.kubectl(&[
            "get",
            "--raw",
            &format!("/api/v1/nodes/{NODE_NAME}/proxy/metrics"),
        ])?;
        let prefix = "kubelet_http_inflight_requests{";
        let line = metrics
            .lines()
            .find(|line| line.starts_with(prefix) && line.contains("path=\"containerLogs\""));
        let count = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        let count = count.unwrap_or_default();
        Ok(if count >= 200.0 { Ok(()) } else { Err(format!("{count} of {FOLLOWERS}")) })
    })?;
    let busy_lease = median(lease_delays(&cluster)?);
    let busy_restart = median(restart_delays(&cluster, &proxy, &loaded)?);
    drop(clients);
    let milliseconds = |seconds: f64| format!("{:.1} ms", 1000.0 * seconds);
    let found = format!(
        "lease {} without load, {} with; restart {} without, {} with",
        milliseconds(lease),
        milliseconds(busy_lease),
        milliseconds(restart),
        milliseconds(busy_restart)
    );
    println!("{found}");
    ensure!(busy_lease - lease <= LIMIT && busy_restart - restart <= LIMIT, "{found}");
    cluster.stop()
}
