//! What containerd has, as its own client tells: the tests' view, which owes nothing to the agent.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use testbed::Instance;

/// A container of containerd; a pod's sandbox is one too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CtrContainer {
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

impl CtrContainer {
    /// Whether it is a pod's sandbox.
    pub fn is_sandbox(&self) -> bool {
        self.name.is_empty()
    }

    /// Whether something of it may run.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state.as_str(), "" | "STOPPED")
    }
}

#[derive(Deserialize)]
struct Info {
    #[serde(rename = "Labels", default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(rename = "Spec", default)]
    spec: serde_json::Value,
}

impl Info {
    /// The network namespace that the container was made with.
    fn netns(&self) -> String {
        let namespaces = self.spec["linux"]["namespaces"].as_array();
        let mut network =
            namespaces.into_iter().flatten().filter(|entry| entry["type"] == "network");
        let path = network.next().and_then(|entry| entry["path"].as_str());
        path.unwrap_or_default().to_owned()
    }
}

/// All containers and sandboxes, by id.
pub fn containers(instance: &Instance) -> Result<Vec<CtrContainer>> {
    let tasks = tasks(instance)?;
    let mut containers = Vec::new();
    for id in lines(instance, &["containers", "ls", "-q"])? {
        let info = match info(instance, &id) {
            // Removed since it was listed.
            Err(error) if error.to_string().contains(": not found") => continue,
            info => info?,
        };
        let netns = info.netns();
        let labels = info.labels.unwrap_or_default();
        let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
        let (pid, state) = tasks.get(&id).cloned().unwrap_or_default();
        let (pod, name) = (label("io.kubernetes.pod.name"), label("io.kubernetes.container.name"));
        containers.push(CtrContainer { id, pod, name, pid, state, netns });
    }
    Ok(containers)
}

/// The labels that a container or sandbox was made with; containerd's own are left out.
pub fn labels(instance: &Instance, id: &str) -> Result<BTreeMap<String, String>> {
    let mut labels = info(instance, id)?.labels.unwrap_or_default();
    labels.retain(|name, _| !name.contains("containerd"));
    Ok(labels)
}

fn info(instance: &Instance, id: &str) -> Result<Info> {
    let info = text(instance, &["containers", "info", id])?;
    serde_json::from_str(&info).context("read ctr containers info")
}

/// Pid and state of every task, by the id of its container.
fn tasks(instance: &Instance) -> Result<BTreeMap<String, (u32, String)>> {
    let mut tasks = BTreeMap::new();
    for line in lines(instance, &["tasks", "ls"])?.into_iter().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [id, pid, state] = words[..] else {
            anyhow::bail!("ctr tasks ls: cannot read {line:?}");
        };
        tasks.insert(id.to_owned(), (pid.parse()?, state.to_owned()));
    }
    Ok(tasks)
}

fn lines(instance: &Instance, args: &[&str]) -> Result<Vec<String>> {
    Ok(text(instance, args)?.lines().map(ToOwned::to_owned).collect())
}

fn text(instance: &Instance, args: &[&str]) -> Result<String> {
    let output = instance.ctr(args)?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ctr {}: {stderr}", args.join(" "));
    String::from_utf8(output.stdout).context("ctr prints text")
}
