//! The node that our agent registers and the upstream kubelet's, on the same machine and the same runtime: what
//! their objects and their leases say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use e2e::agent::Agent;
use e2e::api::{Api, Patch};
use e2e::cluster::Cluster;
use e2e::differences::{Known, differences, is_time, leaves};
use e2e::node::{PATIENCE, program};
use e2e::plane::with_controllers;
use serde_json::{Value, json};
use testbed::{Command, ControlPlaneOptions, Process, User, wait};

/// Where our node is not as upstream's, and why that is right.
const DIFFERENT: &[Known] = &[
    Known {
        path: "/metadata/labels/kubernetes.io~1hostname",
        ours: "ours",
        upstream: "theirs",
        why: "two nodes, two names",
    },
    Known {
        path: "/status/addresses/1/address",
        ours: "ours",
        upstream: "theirs",
        why: "two nodes, two names",
    },
    Known {
        path: "/status/nodeInfo/kubeletVersion",
        ours: "v1.36.3+ferrolet.*",
        upstream: "v1.36.3",
        why: "promised in docs/behaviour/node.md, NODE-16: one sees which agent a node has",
    },
    Known {
        path: "/status/declaredFeatures/ExtendWebSocketsToKubelet",
        ours: "",
        upstream: "declared",
        why: "promised in docs/behaviour/node.md, NODE-17: nothing is declared that is not there, \
              and nobody can exec or attach by our port",
    },
];

/// What says when and by whom an object was written, and nothing about the node.
const NOT_COMPARED: &[&str] = &[
    "/metadata/name",
    "/metadata/uid",
    "/metadata/resourceVersion",
    "/metadata/creationTimestamp",
    "/metadata/managedFields",
];

fn told(node: &Value) -> BTreeMap<String, String> {
    let mut node = node.clone();
    // Each feature by its name, wherever it is in the list.
    let features = node["status"]["declaredFeatures"].take();
    let names = features.as_array().into_iter().flatten().filter_map(Value::as_str);
    let features = names.map(|name| (name.to_owned(), Value::from("declared")));
    node["status"]["declaredFeatures"] = Value::Object(features.collect());
    let mut all = leaves(&node);
    all.retain(|path, _| !is_time(path) && !NOT_COMPARED.iter().any(|skip| path.starts_with(skip)));
    all
}

fn is_ready(node: &Value) -> bool {
    let all = node["status"]["conditions"].as_array().into_iter().flatten();
    all.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

fn ready(api: &Api, name: &str) -> Result<Value> {
    let path = format!("/api/v1/nodes/{name}");
    api.wait(&path, &format!("{name} is ready"), PATIENCE, |node| {
        // Taints of the node's beginning are the controller's business.
        let is_taken_in = |node: &Value| {
            let taints = node["spec"]["taints"].as_array();
            taints.is_some_and(|all| all.len() == 1 && all[0]["key"] == "example.com/held")
        };
        node.filter(|node| is_ready(node) && is_taken_in(node)).cloned()
    })
}

fn configuration(socket: &str) -> String {
    format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1\n\
         kind: KubeletConfiguration\n\
         containerRuntimeEndpoint: unix://{socket}\n\
         cgroupDriver: cgroupfs\n\
         failCgroupV1: false\n\
         failSwapOn: false\n\
         cgroupsPerQOS: false\n\
         enforceNodeAllocatable: []\n\
         authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}\n\
         authorization: {{mode: AlwaysAllow}}\n\
         kubeReserved: {{cpu: 100m, memory: 64Mi, ephemeral-storage: 1Gi}}\n\
         evictionHard: {{memory.available: 32Mi, imagefs.available: 0%}}\n"
    )
}

/// What the runtime was told of the addresses of pods, in the CRI's own encoding.
fn runtime_configs(requests: &Path) -> Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(requests).context("list what the runtime was asked")? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with("-UpdateRuntimeConfig") {
            names.push(path);
        }
    }
    names.sort();
    names.iter().map(|path| std::fs::read(path).context("read a request")).collect()
}

/// The node gets addresses for its pods; what the runtime is told of them.
fn told_of_addresses(cluster: &Cluster, name: &str, requests: &Path) -> Result<Vec<u8>> {
    let before = runtime_configs(requests)?.len();
    let cidrs = json!({ "spec": { "podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"] } });
    cluster.api().patch(&format!("/api/v1/nodes/{name}"), Patch::Strategic, &cidrs)?;
    wait::until("the runtime is told of addresses", PATIENCE, || {
        let mut all = runtime_configs(requests)?;
        let last = all.pop().filter(|_| all.len() >= before);
        Ok(last.ok_or_else(|| format!("{} requests", all.len())))
    })
}

/// The lease of a node, without its name and times.
fn lease(api: &Api, name: &str) -> Result<Value> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}");
    let mut lease =
        api.wait(&path, &format!("{name} has a lease"), PATIENCE, |lease| Some(lease?.clone()))?;
    for owner in lease["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten() {
        drop(owner["uid"].take());
    }
    drop(lease["spec"]["renewTime"].take());
    let keys = ["namespace", "labels", "annotations", "finalizers", "ownerReferences"];
    let metadata = keys.map(|key| lease["metadata"][key].clone());
    let plain = json!([metadata, lease["spec"]]).to_string().replace(name, "NAME");
    Ok(serde_json::from_str(&plain)?)
}

/// What an agent made.
struct Registered {
    node: Value,
    lease: Value,
    /// What the runtime was told.
    told: Vec<u8>,
}

/// Starts an agent of that name.
fn start(cluster: &Cluster, agent: Command, name: &str, config: &Path) -> Result<Process> {
    let instance = cluster.instance();
    let kubeconfig = cluster.kubeconfig(&User::node(name))?.display().to_string();
    let root = instance.dir().join(name).display().to_string();
    let agent = agent
        .args(["--config", &config.display().to_string(), "--kubeconfig", &kubeconfig])
        .args(["--root-dir", &root, "--cert-dir", &format!("{root}/pki")])
        .args(["--hostname-override", name, "--node-ip", &instance.node_ip().to_string()])
        .args(["--node-labels", "example.com/rack=7,node.kubernetes.io/pool=a"])
        .args(["--register-with-taints", "example.com/held=x:PreferNoSchedule"]);
    Ok(instance.spawn(name, &agent)?)
}

fn last_words(agent: &Process) -> String {
    let log = agent.log();
    let lines: Vec<&str> = log.lines().filter(|line| !line.contains("FLAG:")).collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}

/// Runs an agent until its node is ready, and gives it addresses for pods. Both agents have the same ports, so each
/// is alone.
fn registered(
    cluster: &Cluster,
    agent: Command,
    name: &str,
    (config, requests): (&Path, &Path),
) -> Result<Registered> {
    let agent = start(cluster, agent, name, config)?;
    let last_words = || last_words(&agent);
    let node = ready(cluster.api(), name).with_context(last_words)?;
    let lease = lease(cluster.api(), name).with_context(last_words)?;
    let told = told_of_addresses(cluster, name, requests).with_context(last_words)?;
    agent.kill()?;
    agent.wait(PATIENCE)?;
    Ok(Registered { node, lease, told })
}

/// Starts a runtime in memory; gives the configuration for an agent on it, and where its requests are noted.
fn runtime(cluster: &Cluster) -> Result<(Process, PathBuf, PathBuf)> {
    let instance = cluster.instance();
    let socket = instance.dir().join("hollow.sock").display().to_string();
    let requests = instance.dir().join("requests");
    std::fs::create_dir(&requests).context("make a directory for requests")?;
    let hollow = Command::new(program("hollow")?.display().to_string()).args([
        "--socket",
        &socket,
        "--requests",
        &requests.display().to_string(),
    ]);
    let hollow = instance.spawn("hollow", &hollow)?;
    wait::until("the in-memory runtime listens", PATIENCE, || {
        let log = hollow.log();
        Ok(if log.contains("hollow: ready") { Ok(()) } else { Err(log) })
    })?;
    let file = instance.dir().join("kubelet.yaml");
    std::fs::write(&file, configuration(&socket)).context("write the configuration")?;
    Ok((hollow, file, requests))
}

#[test]
fn our_node_says_what_upstreams_says() -> Result<()> {
    let options = with_controllers(&["node-lifecycle-controller"]);
    let cluster = Cluster::start(&options)?;
    let (_hollow, file, requests) = runtime(&cluster)?;
    let instance = cluster.instance();
    let upstream = Agent::Upstream.command(instance.dir())?;
    let theirs = registered(&cluster, upstream, "theirs", (&file, &requests))?;
    let agent = Agent::Ferrolet.command(instance.dir())?;
    let ours = registered(&cluster, agent, "ours", (&file, &requests))?;
    ensure!(ours.told == theirs.told, "the runtime: {:?}, {:?}", ours.told, theirs.told);
    ensure!(ours.lease == theirs.lease, "the lease: {}, {}", ours.lease, theirs.lease);
    let (ours, theirs) = (ours.node, theirs.node);
    eprintln!("{} values compared", told(&ours).len());
    let found = differences(&told(&ours), &told(&theirs), DIFFERENT);
    ensure!(found.is_empty(), "{}\n\nours: {ours}\n\nupstream's: {theirs}", found.join("\n"));
    cluster.stop()
}

/// What becomes of devices that people have put into the object of a node, once an agent finds it.
fn devices(cluster: &Cluster, agent: Command, name: &str, config: &Path) -> Result<Value> {
    let (api, path) = (cluster.api(), format!("/api/v1/nodes/{name}"));
    api.create("/api/v1/nodes", &json!({ "metadata": { "name": name } }))?;
    let amounts = json!({ "cpu": "1", "example.com/hand": "3" });
    let status = json!({ "status": { "capacity": amounts, "allocatable": amounts } });
    api.patch(&format!("{path}/status"), Patch::Strategic, &status)?;
    let agent = start(cluster, agent, name, config)?;
    let what = format!("{name} is ready");
    let node = api.wait(&path, &what, PATIENCE, |node| node.filter(|node| is_ready(node)).cloned());
    let node = node.with_context(|| last_words(&agent))?;
    agent.kill()?;
    agent.wait(PATIENCE)?;
    let amounts =
        ["capacity", "allocatable"].map(|key| node["status"][key]["example.com/hand"].clone());
    Ok(json!(amounts))
}

// behaviour: NODE-10, NODE-56
#[test]
fn devices_that_people_have_put_into_a_node_stay_as_with_upstream() -> Result<()> {
    let cluster = Cluster::start(&ControlPlaneOptions::default())?;
    let (_hollow, file, _) = runtime(&cluster)?;
    let [theirs, ours] =
        [(Agent::Upstream, "theirs"), (Agent::Ferrolet, "ours")].map(|(agent, name)| {
            devices(&cluster, agent.command(cluster.instance().dir())?, name, &file)
        });
    let (theirs, ours) = (theirs?, ours?);
    ensure!(theirs == json!(["3", "3"]), "upstream's: {theirs}");
    ensure!(ours == theirs, "ours: {ours}, upstream's: {theirs}");
    cluster.stop()
}
