//! A node of a cluster: an instance of the testbed with containerd, a control plane and the agent in it.

use std::cell::RefCell;
use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testbed::{ControlPlaneOptions, Options, User, wait};

use crate::agent::Agent;
use crate::api_proxy::ApiProxy;
use crate::containerd::{self, RuntimeContainer};
use crate::cri_proxy::CriProxy;
use crate::node::{NODE_NAME, Node, PATIENCE, one_running};
use crate::observations::Record;
use crate::plane::Plane;

/// The namespace of a test's pods.
pub const NAMESPACE: &str = "shop";

/// The path of the pods in the namespace.
pub const PODS: &str = "/api/v1/namespaces/shop/pods";

/// The image of the containers.
pub const IMAGE: &str = "ferrolet.test/workload:1";

/// The thresholds of most tests, which no machine reaches.
const THRESHOLDS: &str =
    "evictionHard: {memory.available: 1Mi, nodefs.available: 1%, imagefs.available: 1%}\n";

/// The configuration that the upstream kubelet needs on a machine like this one; our agent gets the same.
const CONFIGURATION: &str = "cgroupDriver: cgroupfs\nfailSwapOn: false\n\
    imageGCHighThresholdPercent: 100\nimageGCLowThresholdPercent: 99\n\
    registryPullQPS: 0\n";

/// A node with its control plane.
#[derive(Debug)]
pub struct ClusterNode {
    node: Node,
    plane: Plane,
    kubeconfig: PathBuf,
    /// The observed objects of pods so far.
    record: RefCell<Record>,
}

impl ClusterNode {
    /// A cluster with a namespace for pods, and a node whose agent was not started.
    pub fn start(options: &ControlPlaneOptions) -> Result<Self> {
        Self::start_with(&Options::default(), options, Agent::Ferrolet)
    }

    /// Like `start`, with other options for the runtime, or another agent.
    pub fn start_with(
        runtime: &Options,
        options: &ControlPlaneOptions,
        agent: Agent,
    ) -> Result<Self> {
        let node = Node::start_with(runtime)?.with_agent(agent);
        node.configure(&format!("{CONFIGURATION}{THRESHOLDS}"))?;
        let plane = Plane::start(node.instance(), options)?;
        plane.make_namespace(NAMESPACE)?;
        let kubeconfig = plane.kubeconfig(&User::node(NODE_NAME))?;
        Ok(Self { node, plane, kubeconfig, record: RefCell::default() })
    }

    /// The node, for its manifests and its runtime.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Puts a proxy before the API server; agents started later call through it.
    pub fn put_proxy_before_api(&mut self) -> Result<ApiProxy> {
        let instance = self.node.instance();
        let proxy = ApiProxy::start(instance.host_ip(), &self.kubeconfig)?;
        let kubeconfig = instance.dir().join("proxy.kubeconfig");
        proxy.write_kubeconfig(&kubeconfig)?;
        self.kubeconfig = kubeconfig;
        Ok(proxy)
    }

    /// Writes the node's certificate and key to one file, where agents store certificates that a cluster issued.
    /// Agents started later read both from there.
    pub fn put_identity_into_one_file(&mut self) -> Result<()> {
        let mut config: Value = serde_json::from_str(&fs::read_to_string(&self.kubeconfig)?)?;
        let user = &mut config["users"][0]["user"];
        let one = self.kubeconfig.with_file_name("kubelet-client-current.pem");
        let mut both = String::new();
        for part in ["client-certificate", "client-key"] {
            let path = user[part].as_str().with_context(|| format!("no {part}"))?;
            both.push_str(&fs::read_to_string(path)?);
            user[part] = one.display().to_string().into();
        }
        fs::write(&one, both).context("write a certificate and its key")?;
        self.kubeconfig.set_file_name("kubelet.conf");
        fs::write(&self.kubeconfig, config.to_string()).context("write a kubeconfig")
    }

    /// Puts a proxy before the runtime; agents started later call through it, with `more` in their configuration.
    pub fn put_proxy_before_runtime(&mut self, more: &str) -> Result<CriProxy> {
        let proxy = self.node.put_proxy_before_runtime()?;
        self.node.configure(&format!("{CONFIGURATION}{THRESHOLDS}{more}"))?;
        Ok(proxy)
    }

    /// Sets when agents started later evict pods: `evictionHard` and further fields.
    pub fn set_thresholds(&self, fields: &str) -> Result<()> {
        self.node.configure(&format!("{CONFIGURATION}{fields}"))
    }

    /// Starts the agent as a node of the cluster.
    pub fn start_agent(&mut self) -> Result<()> {
        self.start_agent_with_flags(&[])
    }

    /// Like `start_agent`, with additional flags.
    pub fn start_agent_with_flags(&mut self, more: &[&str]) -> Result<()> {
        let kubeconfig = self.kubeconfig.display().to_string();
        let certificates = self.node.root_dir().join("pki").display().to_string();
        let flags = ["--kubeconfig", &kubeconfig, "--cert-dir", &certificates];
        self.node.start_agent_with_flags(&[&flags, more].concat())
    }

    /// Waits until the agent has exited by itself.
    pub fn wait_agent_ends(&mut self) -> Result<ExitStatus> {
        self.node.wait_agent_ends()
    }

    /// Kills the agent with SIGKILL.
    pub fn kill_agent(&mut self) -> Result<()> {
        self.node.kill_agent()
    }

    /// Stops the agent and starts another in its place, with the same flags, files and root directory.
    pub fn hand_over_to(&mut self, agent: Agent) -> Result<()> {
        self.hand_over_with_flags(agent, &[])
    }

    /// As `hand_over_to`, with additional flags.
    pub fn hand_over_with_flags(&mut self, agent: Agent, more: &[&str]) -> Result<()> {
        self.node.stop_agent()?;
        self.node.set_agent(agent);
        self.start_agent_with_flags(more)
    }

    /// The path of a pod in the namespace.
    pub fn pod_path(name: &str) -> String {
        format!("{PODS}/{name}")
    }

    /// Creates a pod with one container, bound to the node.
    pub fn make_pod(&self, name: &str, args: &[&str]) -> Result<Value> {
        self.api().create(PODS, &pod(name, args))
    }

    /// Waits until an object is as `wanted` says; an error has the end of the agent's log.
    pub fn wait_for<T>(
        &self,
        path: &str,
        what: &str,
        wanted: impl FnMut(Option<&Value>) -> Option<T>,
    ) -> Result<T> {
        self.node.explained(self.api().wait(path, what, PATIENCE, wanted))
    }

    /// Watches a pod until a version matches `wanted`: for a status that may be short-lived.
    pub fn watch_pod<T>(
        &self,
        name: &str,
        what: &str,
        wanted: impl FnMut(&Value) -> Option<T>,
    ) -> Result<T> {
        let path = format!("{PODS}/{name}");
        self.node.explained(self.api().watch(&path, what, PATIENCE, wanted))
    }

    /// Waits until `left` returns 0. Each decrease restarts the timeout: the time for many pods depends on the
    /// machine's load.
    pub fn wait_none_left(
        &self,
        path: &str,
        what: &str,
        mut left: impl FnMut(&Value) -> Option<usize>,
    ) -> Result<()> {
        let mut least = usize::MAX;
        while least > 0 {
            let what = if least == usize::MAX { what } else { &format!("{what}, {least} left") };
            least =
                self.wait_for(path, what, |object| left(object?).filter(|number| *number < least))?;
        }
        Ok(())
    }

    /// Waits until the pods of a selector, such as `app=web`, are as `wanted` says.
    pub fn wait_for_pods<T>(
        &self,
        selector: &str,
        what: &str,
        mut wanted: impl FnMut(&[Value]) -> Option<T>,
    ) -> Result<T> {
        self.wait_for(&selected(selector), what, |list| wanted(list?["items"].as_array()?))
    }

    /// Waits until no pod of a selector is left.
    pub fn wait_for_no_pods(&self, selector: &str) -> Result<()> {
        self.wait_none_left(&selected(selector), &format!("no pod with {selector}"), |list| {
            list["items"].as_array().map(Vec::len)
        })
    }

    /// Waits until a pod runs and is ready.
    pub fn wait_ready(&self, path: &str) -> Result<Value> {
        self.wait_ready_for(path, PATIENCE)
    }

    /// Like `wait_ready`, with more time: upstream lists pods and its own node again only after a
    /// while.
    pub fn wait_ready_at_last(&self, path: &str) -> Result<Value> {
        self.wait_ready_for(path, 5 * PATIENCE)
    }

    fn wait_ready_for(&self, path: &str, patience: Duration) -> Result<Value> {
        let what = format!("{path} is ready");
        self.node.explained(
            self.api().wait(path, &what, patience, |pod| pod.filter(|pod| is_ready(pod)).cloned()),
        )
    }

    /// Waits until the node is ready. Upstream may look up its own node before it has created it, and then takes
    /// minutes to look again.
    pub fn wait_node_ready(&self) -> Result<()> {
        let path = format!("/api/v1/nodes/{NODE_NAME}");
        self.node.explained(self.api().wait(&path, "the node is ready", 5 * PATIENCE, |node| {
            (condition(node?, "Ready")["status"] == "True").then_some(())
        }))
    }

    /// Waits until the node is ready and schedulable.
    pub fn wait_schedulable(&self) -> Result<()> {
        self.wait_node_ready()?;
        self.wait_for(&format!("/api/v1/nodes/{NODE_NAME}"), "the node has no taint", |node| {
            node?["spec"]["taints"].is_null().then_some(())
        })
    }

    /// Waits until a pod has succeeded or failed.
    pub fn wait_over(&self, path: &str) -> Result<Value> {
        self.wait_for(path, &format!("{path} is over"), |pod| {
            let is_over = |phase: &Value| phase == "Succeeded" || phase == "Failed";
            pod.filter(|pod| is_over(&pod["status"]["phase"])).cloned()
        })
    }

    /// Waits until a pod is gone from the API.
    pub fn wait_gone(&self, path: &str, time: Duration) -> Result<()> {
        self.node.explained(self.api().wait_gone(path, time))
    }

    /// Deletes a pod of the namespace and waits until it is gone from the API. Its object is recorded before, unless it
    /// was already.
    pub fn remove_pod(&self, name: &str) -> Result<()> {
        self.remove_pods(&[name])
    }

    /// Removes several pods, as [`Self::remove_pod`] does.
    pub fn remove_pods(&self, names: &[&str]) -> Result<()> {
        for name in names {
            let path = Self::pod_path(name);
            if !self.record.borrow().has(name) {
                self.look_at(&self.api().get(&path)?.context("the pod is there")?)?;
            }
            self.api().delete(&path)?;
        }
        names.iter().try_for_each(|name| self.wait_gone(&Self::pod_path(name), PATIENCE))
    }

    /// The observed objects of pods so far.
    pub(crate) fn record(&self) -> &RefCell<Record> {
        &self.record
    }

    /// Waits for an event of a pod in the namespace, by its reason and a part of its message.
    pub fn wait_for_event(&self, pod: &str, reason: &str, part: &str) -> Result<Value> {
        self.wait_for_event_in(NAMESPACE, pod, reason, part)
    }

    /// Waits for an event of the node, likewise.
    pub fn wait_for_node_event(&self, reason: &str, part: &str) -> Result<Value> {
        self.wait_for_event_in("default", NODE_NAME, reason, part)
    }

    fn wait_for_event_in(
        &self,
        namespace: &str,
        name: &str,
        reason: &str,
        part: &str,
    ) -> Result<Value> {
        let selector = format!("involvedObject.name%3D{name},reason%3D{reason}");
        let path = format!("/api/v1/namespaces/{namespace}/events?fieldSelector={selector}");
        self.wait_for(&path, &format!("{reason} of {name}"), |list| {
            let mut all = list?["items"].as_array()?.iter();
            all.find(|event| event["message"].as_str().is_some_and(|text| text.contains(part)))
                .cloned()
        })
    }

    /// The log of the first instance of a container.
    pub fn log(&self, pod: &Value, container: &str) -> Result<String> {
        let file = format!("{}/{container}/0.log", log_directory(pod));
        let lines = self.node.read(&file)?;
        let text = lines.lines().filter_map(|line| line.splitn(4, ' ').nth(3));
        Ok(text.flat_map(|line| [line, "\n"]).collect())
    }

    /// Waits until the log of a container has a text. The runtime may report the container's end before it has written
    /// the last lines.
    pub fn wait_log(
        &self,
        pod: &Value,
        container: &str,
        is_complete: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let what = format!("{} has printed all", pod["metadata"]["name"]);
        self.node.explained(wait::until(&what, PATIENCE, || {
            let printed = self.log(pod, container)?;
            Ok(if is_complete(&printed) { Ok(()) } else { Err(printed) })
        }))
    }

    /// The containers of a pod in the runtime, without sandboxes.
    pub fn containers(&self, pod: &str) -> Result<Vec<RuntimeContainer>> {
        let mut containers = containerd::containers(self.node.instance())?;
        containers.retain(|container| container.pod == pod && !container.name.is_empty());
        Ok(containers)
    }

    /// The only running container of a pod.
    pub fn running(&self, pod: &str) -> Result<RuntimeContainer> {
        let containers = self.containers(pod)?;
        one_running(&containers).with_context(|| format!("not one runs: {containers:?}"))
    }

    /// Stops everything. Fails if anything is left behind.
    pub fn stop(self) -> Result<()> {
        self.node.stop()
    }
}

impl Deref for ClusterNode {
    type Target = Plane;

    fn deref(&self) -> &Plane {
        &self.plane
    }
}

impl DerefMut for ClusterNode {
    fn deref_mut(&mut self) -> &mut Plane {
        &mut self.plane
    }
}

/// The path of the pods in the namespace that match a selector.
fn selected(selector: &str) -> String {
    format!("{PODS}?labelSelector={}", selector.replace('=', "%3D"))
}

/// A condition of an object; null if it has none of that type.
pub fn condition(object: &Value, kind: &str) -> Value {
    let mut all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.find(|one| one["type"] == kind).cloned().unwrap_or_default()
}

/// Whether a pod runs and is ready.
pub fn is_ready(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running" && condition(pod, "Ready")["status"] == "True"
}

/// The log directory of a pod on its node.
pub fn log_directory(pod: &Value) -> String {
    let of = |key: &str| pod["metadata"][key].as_str().unwrap_or_default();
    format!("/var/log/pods/{}_{}_{}", of("namespace"), of("name"), of("uid"))
}

/// A pod with one container, bound to the node.
pub fn pod(name: &str, args: &[&str]) -> Value {
    let mut spec = pod_spec(args);
    spec["nodeName"] = NODE_NAME.into();
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec })
}

/// The spec of a pod with one container.
pub fn pod_spec(args: &[&str]) -> Value {
    json!({
        "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": 5,
        "containers": [{ "name": "main", "image": IMAGE, "args": args }],
    })
}
