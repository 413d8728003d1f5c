//! The containers and images of containerd, from its own API instead of the CRI: what tests see does not depend on the
//! agent.

mod client;
mod messages;

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;
use testbed::Instance;

use messages::{
    Any, Container, GetContainerRequest, GetContainerResponse, ListContainersResponse,
    ListImagesResponse, ListRequest, ListTasksResponse, Process,
};

/// A container of containerd; a pod's sandbox is one too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeContainer {
    /// Its id.
    pub id: String,
    /// The pod's name.
    pub pod: String,
    /// The container's name in the pod; empty for a sandbox.
    pub name: String,
    /// Pid of its process inside the instance; 0 when it has none.
    pub pid: u32,
    /// `RUNNING`, `STOPPED`, …; empty without a task.
    pub state: String,
    /// The file of its network namespace; empty without one of its own.
    pub netns: String,
}

impl RuntimeContainer {
    fn new(container: Container, task: Option<&Process>) -> Result<Self> {
        let label = |name: &str| container.labels.get(name).cloned().unwrap_or_default();
        let netns = container.spec.as_ref().map(netns).transpose();
        Ok(Self {
            pod: label("io.kubernetes.pod.name"),
            name: label("io.kubernetes.container.name"),
            pid: task.map_or(0, |task| task.pid),
            state: task.map(|task| task.status().name().to_owned()).unwrap_or_default(),
            netns: netns
                .with_context(|| format!("read the spec of container {}", container.id))?
                .unwrap_or_default(),
            id: container.id,
        })
    }

    /// Whether it is a pod's sandbox.
    pub fn is_sandbox(&self) -> bool {
        self.name.is_empty()
    }

    /// Whether any process of it may run.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state.as_str(), "" | "STOPPED")
    }
}

/// The part of an OCI runtime specification that tests look at.
#[derive(Deserialize)]
struct Spec {
    linux: Option<Linux>,
}

#[derive(Deserialize)]
struct Linux {
    namespaces: Option<Vec<Namespace>>,
}

#[derive(Deserialize)]
struct Namespace {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    path: String,
}

/// The network namespace that a container was created with.
fn netns(spec: &Any) -> Result<String, serde_json::Error> {
    let spec: Spec = serde_json::from_slice(&spec.value)?;
    let namespaces = spec.linux.and_then(|linux| linux.namespaces).unwrap_or_default();
    let network = namespaces.into_iter().find(|namespace| namespace.kind == "network");
    Ok(network.map(|namespace| namespace.path).unwrap_or_default())
}

/// All containers and sandboxes, by id.
pub fn containers(instance: &Instance) -> Result<Vec<RuntimeContainer>> {
    let socket = instance.containerd_socket();
    let method = "/containerd.services.tasks.v1.Tasks/List";
    let listed: ListTasksResponse = client::call(&socket, method, ListRequest {})?;
    let tasks: BTreeMap<String, Process> =
        listed.tasks.into_iter().map(|task| (task.id.clone(), task)).collect();
    let method = "/containerd.services.containers.v1.Containers/List";
    let listed: ListContainersResponse = client::call(&socket, method, ListRequest {})?;
    let all = listed.containers.into_iter().map(|container| {
        let task = tasks.get(&container.id);
        RuntimeContainer::new(container, task)
    });
    all.collect()
}

/// The labels that a container or sandbox was created with, without those of containerd itself.
pub fn labels(instance: &Instance, id: &str) -> Result<BTreeMap<String, String>> {
    let method = "/containerd.services.containers.v1.Containers/Get";
    let request = GetContainerRequest { id: id.to_owned() };
    let answer: GetContainerResponse =
        client::call(&instance.containerd_socket(), method, request)?;
    let mut labels = answer.container.context("an answer has a container")?.labels;
    labels.retain(|name, _| !name.contains("containerd"));
    Ok(labels)
}

/// The names of all images.
pub fn images(instance: &Instance) -> Result<Vec<String>> {
    let method = "/containerd.services.images.v1.Images/List";
    let listed: ListImagesResponse =
        client::call(&instance.containerd_socket(), method, ListRequest {})?;
    Ok(listed.images.into_iter().map(|image| image.name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netns_is_the_path_of_the_network_namespace() {
        let cases = [
            (r#"{"linux":{"namespaces":[{"type":"pid"},{"type":"network","path":"/a"}]}}"#, "/a"),
            (r#"{"linux":{"namespaces":[{"type":"network"}]}}"#, ""),
            (r#"{"linux":{"namespaces":[{"type":"pid","path":"/b"}]}}"#, ""),
            (r#"{"linux":{}}"#, ""),
            (r#"{"ociVersion":"1.2.0"}"#, ""),
        ];
        for (spec, expected) in cases {
            let found = netns(&Any { value: spec.into() }).unwrap();
            assert_eq!(found, expected, "{spec}");
        }
    }
}
