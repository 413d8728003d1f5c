//! A node of a cluster: an instance of the testbed with containerd, a control plane and the agent in it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testbed::{Component, ControlPlane, ControlPlaneOptions, User};

use crate::api::Api;
use crate::cluster::make_namespace;
use crate::ctr::{self, CtrContainer};
use crate::node::{NODE_NAME, Node, PATIENCE, one_running};

/// The namespace that the pods of a test are in.
pub const NAMESPACE: &str = "shop";

/// A node with the control plane that it belongs to.
#[derive(Debug)]
pub struct ClusterNode {
    node: Node,
    control_plane: ControlPlane,
    api: Api,
    kubeconfig: PathBuf,
}

impl ClusterNode {
    /// A cluster with a namespace for pods, and a node whose agent was not started.
    pub fn start(options: &ControlPlaneOptions) -> Result<Self> {
        let node = Node::start()?;
        let control_plane =
            node.instance().start_control_plane(options).context("start a control plane")?;
        let api = Api::new(control_plane.admin_kubeconfig())?;
        make_namespace(&api, NAMESPACE)?;
        let kubeconfig = control_plane.kubeconfig(&User::node(NODE_NAME))?;
        Ok(Self { node, control_plane, api, kubeconfig })
    }

    /// The node, for its manifests and its runtime.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The client of somebody who may do everything.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// For stopping and starting its parts.
    pub fn control_plane_mut(&mut self) -> &mut ControlPlane {
        &mut self.control_plane
    }

    /// Starts the agent as a node of the cluster.
    pub fn start_agent(&mut self) -> Result<()> {
        let kubeconfig = self.kubeconfig.display().to_string();
        self.node.start_agent_with_flags(&["--kubeconfig", &kubeconfig])
    }

    /// Kills the agent so that it notices nothing.
    pub fn kill_agent(&mut self) -> Result<()> {
        self.node.kill_agent()
    }

    /// Stops the API server, or kills it.
    pub fn stop_api_server(&mut self) -> Result<()> {
        Ok(self.control_plane.kill_component(Component::ApiServer)?)
    }

    /// Starts it again.
    pub fn start_api_server(&mut self) -> Result<()> {
        Ok(self.control_plane.start_component(Component::ApiServer, &[])?)
    }

    /// Where a pod of the namespace is.
    pub fn pod_path(name: &str) -> String {
        format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}")
    }

    /// Makes a pod of one container, bound to the node.
    pub fn make_pod(&self, name: &str, args: &[&str]) -> Result<Value> {
        self.api.create(&format!("/api/v1/namespaces/{NAMESPACE}/pods"), &pod(name, args))
    }

    /// Waits until a pod is as `wanted` says; an error has the agent's last words.
    pub fn wait_for<T>(
        &self,
        path: &str,
        what: &str,
        wanted: impl FnMut(Option<&Value>) -> Option<T>,
    ) -> Result<T> {
        self.node.explained(self.api.wait(path, what, PATIENCE, wanted))
    }

    /// Waits until a pod runs and is ready.
    pub fn wait_ready(&self, path: &str) -> Result<Value> {
        self.wait_for(path, &format!("{path} is ready"), |pod| {
            let pod = pod?;
            let runs = pod["status"]["phase"] == "Running";
            (runs && condition(pod, "Ready")["status"] == "True").then(|| pod.clone())
        })
    }

    /// Waits until a pod is gone from the API.
    pub fn wait_gone(&self, path: &str, time: Duration) -> Result<()> {
        self.node.explained(self.api.wait_gone(path, time))
    }

    /// The containers of a pod in the runtime, sandboxes aside.
    pub fn containers(&self, pod: &str) -> Result<Vec<CtrContainer>> {
        let mut containers = ctr::containers(self.node.instance())?;
        containers.retain(|container| container.pod == pod && !container.name.is_empty());
        Ok(containers)
    }

    /// The one container of a pod that runs.
    pub fn running(&self, pod: &str) -> Result<CtrContainer> {
        let containers = self.containers(pod)?;
        one_running(&containers).with_context(|| format!("not one runs: {containers:?}"))
    }

    /// Takes all down and fails if that left anything behind.
    pub fn stop(self) -> Result<()> {
        self.node.stop()
    }
}

/// A condition of an object; null if it has none of that type.
pub fn condition(object: &Value, kind: &str) -> Value {
    let mut all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.find(|one| one["type"] == kind).cloned().unwrap_or_default()
}

/// A pod of one container, bound to the node.
pub fn pod(name: &str, args: &[&str]) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name },
        "spec": {
            "nodeName": NODE_NAME,
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 5,
            "containers": [{ "name": "main", "image": "ferrolet.test/workload:1", "args": args }],
        },
    })
}
