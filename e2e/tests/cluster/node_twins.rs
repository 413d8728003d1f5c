//! The Node object and the lease of our agent and of the upstream kubelet, on the same machine and the same runtime.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use e2e::agent::Agent;
use e2e::api::{Api, Patch};
use e2e::cluster::Cluster;
use e2e::differences::{KnownDifference, differences};
use e2e::node::{PATIENCE, program};
use e2e::node_values::{DIFFERENT, node_values};
use e2e::plane::with_controllers;
use model::quantity::Quantity;
use serde_json::{Value, json};
use testbed::{Command, Process, User, wait};

/// Differences because there are two nodes.
const NAMES: &[KnownDifference] = &[
    KnownDifference {
        path: "/metadata/labels/kubernetes.io~1hostname",
        ours: "ours",
        upstream: "theirs",
        why: "two nodes, two names",
    },
    KnownDifference {
        path: "/status/addresses/1/address",
        ours: "ours",
        upstream: "theirs",
        why: "two nodes, two names",
    },
];

/// The taint of new nodes, and that of a node that existed before.
const HELD: &str = "example.com/held";
const FOREIGN: &str = "example.com/foreign";

fn is_ready(node: &Value) -> bool {
    let all = node["status"]["conditions"].as_array().into_iter().flatten();
    all.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// The reserved memory of the configuration below. Huge pages are not memory, either.
const KEPT_BACK: &str = "96Mi";

/// Whether the amounts of memory are final. For a node that was there before, upstream's first status may still count
/// huge pages of sizes that the machine does not have, and that the object no longer lists.
fn memory_is_final(node: &Value) -> bool {
    let bytes = |text: &str| Quantity::parse(text).ok().map(|amount| amount.value());
    let of = |amounts: &Value| amounts["memory"].as_str().and_then(bytes);
    let [capacity, allocatable] = ["capacity", "allocatable"].map(|key| &node["status"][key]);
    let pages = capacity.as_object().into_iter().flatten();
    let pages = pages.filter(|(name, _)| name.starts_with("hugepages-"));
    let pages: i64 = pages.filter_map(|(_, amount)| bytes(amount.as_str()?)).sum();
    let kept_back = bytes(KEPT_BACK).map(|kept| kept + pages);
    of(capacity).zip(of(allocatable)).map(|(all, some)| all - some) == kept_back
}

/// Waits until a node is ready and has only this taint.
fn ready(api: &Api, name: &str, taint: &str) -> Result<Value> {
    let path = format!("/api/v1/nodes/{name}");
    api.wait(&path, &format!("{name} is ready"), PATIENCE, |node| {
        // The controller adds and removes the taints of a new node.
        let is_taken_in = |node: &Value| {
            let taints = node["spec"]["taints"].as_array();
            taints.is_some_and(|all| all.len() == 1 && all[0]["key"] == taint)
        };
        let is_final = |node: &&Value| is_ready(node) && is_taken_in(node) && memory_is_final(node);
        node.filter(is_final).cloned()
    })
}

/// Creates a Node object with wrong values, and with values of other owners that the agent must keep.
fn make_wrong(api: &Api, name: &str) -> Result<()> {
    let path = format!("/api/v1/nodes/{name}");
    api.delete(&path)?;
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": "somebody",
                "kubernetes.io/os": "plan9",
                "kubernetes.io/arch": "vax",
                "beta.kubernetes.io/arch": "vax",
                "node.kubernetes.io/instance-type": "large",
                "topology.kubernetes.io/zone": "west",
                "example.com/rack": "1",
                "example.com/kept": "yes",
            },
            "annotations": { "example.com/note": "kept" },
        },
        "spec": { "taints": [{ "key": FOREIGN, "value": "x", "effect": "NoSchedule" }] },
    });
    api.create("/api/v1/nodes", &node)?;
    let amounts =
        json!({ "cpu": "1", "hugepages-2Mi": "64Mi", "hugepages-64Mi": "64Mi", "pods": "3" });
    let status = json!({ "status": { "capacity": amounts, "allocatable": amounts } });
    api.patch(&format!("{path}/status"), Patch::Strategic, &status).map(drop)
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

/// The `UpdateRuntimeConfig` requests that the runtime received, in the CRI's encoding.
fn runtime_configs(requests: &Path) -> Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(requests).context("list the runtime requests")? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // A file with a leading dot is incomplete.
        if name.ends_with("-UpdateRuntimeConfig") && !name.starts_with('.') {
            names.push(entry.path());
        }
    }
    names.sort();
    names.iter().map(|path| std::fs::read(path).context("read a request")).collect()
}

/// Gives the node a pod CIDR, and returns the `UpdateRuntimeConfig` request that follows.
fn update_runtime_config(cluster: &Cluster, name: &str, requests: &Path) -> Result<Vec<u8>> {
    let before = runtime_configs(requests)?.len();
    let cidrs = json!({ "spec": { "podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"] } });
    cluster.api().patch(&format!("/api/v1/nodes/{name}"), Patch::Strategic, &cidrs)?;
    wait::until("the runtime gets the pod CIDR", PATIENCE, || {
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

/// The objects and requests of an agent.
struct Registered {
    node: Value,
    lease: Value,
    /// The last `UpdateRuntimeConfig` request.
    runtime_config: Vec<u8>,
}

/// A cluster with a runtime for agents.
struct Harness {
    cluster: Cluster,
    /// The configuration of agents.
    config: PathBuf,
    /// The directory of recorded runtime requests.
    requests: PathBuf,
}

impl Harness {
    fn start() -> Result<Self> {
        let cluster = Cluster::start(&with_controllers(&["node-lifecycle-controller"]))?;
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
        let config = instance.dir().join("kubelet.yaml");
        std::fs::write(&config, configuration(&socket)).context("write the configuration")?;
        Ok(Self { cluster, config, requests })
    }

    /// Starts an agent with this name and its own directory.
    fn spawn(&self, agent: Agent, name: &str, root: &str) -> Result<Process> {
        let instance = self.cluster.instance();
        let kubeconfig = self.cluster.kubeconfig(&User::node(name))?.display().to_string();
        let root = instance.dir().join(root).display().to_string();
        let command = agent
            .command(instance.dir())?
            .args(["--config", &self.config.display().to_string(), "--kubeconfig", &kubeconfig])
            .args(["--root-dir", &root, "--cert-dir", &format!("{root}/pki")])
            .args(["--hostname-override", name, "--node-ip", &instance.node_ip().to_string()])
            .args(["--node-labels", "example.com/rack=7,node.kubernetes.io/pool=a"])
            .args(["--register-with-taints", &format!("{HELD}=x:PreferNoSchedule")]);
        Ok(instance.spawn(name, &command)?)
    }

    /// Runs an agent until its node is ready and has this taint, and gives the node a pod CIDR. Both agents use the
    /// same ports, so they run one after the other.
    fn registered(&self, agent: Agent, name: &str, taint: &str) -> Result<Registered> {
        let agent = self.spawn(agent, name, &format!("{name}-{}", taint.replace('/', "-")))?;
        let log_end = || log_end(&agent);
        let api = self.cluster.api();
        let node = ready(api, name, taint).with_context(log_end)?;
        let lease = lease(api, name).with_context(log_end)?;
        let runtime_config =
            update_runtime_config(&self.cluster, name, &self.requests).with_context(log_end)?;
        agent.kill()?;
        agent.wait(PATIENCE)?;
        Ok(Registered { node, lease, runtime_config })
    }

    /// The extended resources of an existing node after an agent has registered it.
    fn devices(&self, agent: Agent, name: &str) -> Result<Value> {
        let (api, path) = (self.cluster.api(), format!("/api/v1/nodes/{name}"));
        api.create("/api/v1/nodes", &json!({ "metadata": { "name": name } }))?;
        let amounts = json!({ "cpu": "1", "example.com/hand": "3", "example.com/plugin": "4" });
        let status = json!({ "status": { "capacity": amounts, "allocatable": amounts } });
        api.patch(&format!("{path}/status"), Patch::Strategic, &status)?;
        let agent = self.spawn(agent, name, name)?;
        let what = format!("{name} is ready");
        let node =
            api.wait(&path, &what, PATIENCE, |node| node.filter(|node| is_ready(node)).cloned());
        let node = node.with_context(|| log_end(&agent))?;
        agent.kill()?;
        agent.wait(PATIENCE)?;
        let of_others = |key: &str| {
            let mut amounts = node["status"][key].clone();
            let amounts = amounts.as_object_mut().map(std::mem::take).unwrap_or_default();
            let theirs = amounts.into_iter().filter(|(name, _)| name.starts_with("example.com/"));
            Value::Object(theirs.collect())
        };
        Ok(json!([of_others("capacity"), of_others("allocatable")]))
    }

    /// The results of both agents, one after the other.
    fn devices_of_both(&self, suffix: &str) -> Result<[Value; 2]> {
        let both = [(Agent::Upstream, "theirs"), (Agent::Ferrolet, "ours")];
        let [theirs, ours] =
            both.map(|(agent, name)| self.devices(agent, &format!("{name}{suffix}")));
        Ok([theirs?, ours?])
    }

    /// Checks that both agents register the same.
    fn same(&self, taint: &str) -> Result<()> {
        let theirs = self.registered(Agent::Upstream, "theirs", taint)?;
        let ours = self.registered(Agent::Ferrolet, "ours", taint)?;
        let (our_config, their_config) = (&ours.runtime_config, &theirs.runtime_config);
        ensure!(our_config == their_config, "the runtime: {our_config:?}, {their_config:?}");
        ensure!(ours.lease == theirs.lease, "the lease: {}, {}", ours.lease, theirs.lease);
        let (ours, theirs) = (ours.node, theirs.node);
        eprintln!("{} values compared", node_values(&ours).len());
        let known = [NAMES, DIFFERENT].concat();
        let found = differences(&node_values(&ours), &node_values(&theirs), &known);
        ensure!(found.is_empty(), "{}\n\nours: {ours}\n\nupstream's: {theirs}", found.join("\n"));
        Ok(())
    }
}

// behaviour: NODE-2
#[test]
fn node_object_equals_upstreams_when_new_and_when_one_existed() -> Result<()> {
    let harness = Harness::start()?;
    harness.same(HELD)?;
    for name in ["ours", "theirs"] {
        make_wrong(harness.cluster.api(), name)?;
    }
    harness.same(FOREIGN).context("a node that was there before")?;
    harness.cluster.stop()
}

fn log_end(agent: &Process) -> String {
    let log = agent.log();
    let lines: Vec<&str> = log.lines().filter(|line| !line.contains("FLAG:")).collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}

/// The upstream kubelet's checkpoint of the devices of two plugins. It verifies only the checksum.
const CHECKPOINT: &str = r#"{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{"example.com/plugin":["a","b"],"example.com/unseen":["c"]}},"Checksum":1669732244}"#;

// behaviour: NODE-10, NODE-56
#[test]
fn manual_extended_resources_stay_and_plugin_resources_become_zero() -> Result<()> {
    let harness = Harness::start()?;
    let [theirs, ours] = harness.devices_of_both("")?;
    let stay = json!({ "example.com/hand": "3", "example.com/plugin": "4" });
    ensure!(theirs == json!([stay, stay]), "upstream's: {theirs}");
    ensure!(ours == theirs, "ours: {ours}, upstream's: {theirs}");
    // Plugins have registered with the agent before; the node has no resource of one of them.
    let script = format!(
        "mkdir -p /var/lib/kubelet/device-plugins && \
         printf %s '{CHECKPOINT}' > /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
    );
    let wrote = harness.cluster.instance().run(&Command::new("sh").args(["-c", &script]))?;
    ensure!(wrote.status.success(), "{wrote:?}");
    let [theirs, ours] = harness.devices_of_both("-later")?;
    let none = json!({
        "example.com/hand": "3", "example.com/plugin": "0", "example.com/unseen": "0",
    });
    ensure!(theirs == json!([none, none]), "upstream's: {theirs}");
    ensure!(ours == theirs, "ours: {ours}, upstream's: {theirs}");
    harness.cluster.stop()
}
