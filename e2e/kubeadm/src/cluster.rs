//! The cluster: its two nodes, and requests to its API server.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use testbed::wait;

use crate::node::Node;
use crate::pods::Pods;

/// How long the cluster may take to reach a state.
const PATIENCE: Duration = Duration::from_mins(2);
/// The pause between two requests.
const PAUSE: Duration = Duration::from_millis(500);

/// The network ranges of the pods, as in `manifests/network.yaml`.
const POD_RANGES: [&str; 2] = ["10.244.1.0/24", "10.244.2.0/24"];

/// Two machines, which become a cluster.
#[derive(Debug)]
pub struct Cluster {
    /// The node of the control plane.
    pub first: Node,
    pub second: Node,
    /// The directory of ferrolet.
    pub programs: PathBuf,
    /// The commands of `docs/install.md`.
    pub install_page: String,
    interrupted: Arc<AtomicBool>,
}

impl Cluster {
    /// Starts both machines. `interrupted` ends every wait.
    pub fn start(
        programs: PathBuf,
        install_page: String,
        interrupted: Arc<AtomicBool>,
    ) -> Result<Self> {
        let first = Node::start("node-1", &programs)?;
        let second = Node::start("node-2", &programs)?;
        first.instance().connect_to(second.instance()).context("connect the nodes")?;
        for (here, there, range) in
            [(&first, &second, POD_RANGES[1]), (&second, &first, POD_RANGES[0])]
        {
            // The network add-on of the tests has no program that sets routes.
            here.script(&format!("ip route add {range} via {}", there.ip()))?;
        }
        Ok(Self { first, second, programs, install_page, interrupted })
    }

    pub fn nodes(&self) -> [&Node; 2] {
        [&self.first, &self.second]
    }

    /// Runs kubectl on the first node.
    pub fn kubectl(&self, words: &[&str]) -> Result<String> {
        self.first.run(&[&["kubectl"], words].concat())
    }

    /// Applies a manifest.
    pub fn apply(&self, name: &str, manifest: &str) -> Result<()> {
        let path = self.first.write(name, manifest)?;
        self.kubectl(&["apply", "-f", &path]).map(drop)
    }

    /// Reads objects.
    pub fn get(&self, words: &[&str]) -> Result<Value> {
        let text = self.kubectl(&[&["get", "-o", "json"], words].concat())?;
        serde_json::from_str(&text).context("parse the output of kubectl")
    }

    /// The pods of all namespaces.
    pub fn pods(&self) -> Result<Pods> {
        Ok(Pods::of(&self.get(&["pods", "--all-namespaces"])?))
    }

    /// Waits until a check succeeds. An error of a request counts as a failed check.
    pub fn wait<T>(
        &self,
        what: &str,
        mut check: impl FnMut() -> Result<Result<T, String>>,
    ) -> Result<T> {
        wait::every(PAUSE, what, PATIENCE, || {
            if self.interrupted.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            Ok(check().unwrap_or_else(|error| Err(format!("{error:#}"))))
        })
    }

    /// Waits until a node has a status of the condition `Ready`.
    pub fn wait_node_ready(&self, name: &str, status: &str) -> Result<()> {
        let path = "-o=jsonpath={.status.conditions[?(@.type=='Ready')].status}";
        self.wait(&format!("{name} has the condition Ready={status}"), || {
            let seen = self.kubectl(&["get", "node", name, path])?;
            Ok(if seen == status { Ok(()) } else { Err(seen) })
        })
    }

    /// Waits until all pods of a selection are ready, and there are as many as expected.
    pub fn wait_pods_ready(&self, selector: &str, number: usize) -> Result<()> {
        self.wait(&format!("{number} pods of {selector} are ready"), || {
            let list = self.get(&["pods", "--all-namespaces", "--selector", selector])?;
            let pods = Pods::of(&list);
            let is_done = pods.len() == number && pods.are_ready();
            Ok(if is_done { Ok(()) } else { Err(pods.to_string()) })
        })
    }

    /// Copies the logs, and the state of the cluster if it has an API server.
    pub fn copy_logs(&self, into: &Path) -> Result<()> {
        for node in self.nodes() {
            node.copy_logs(into)?;
        }
        for (file, objects) in [("pods.yaml", "pods"), ("events.txt", "events")] {
            let output = if objects == "pods" { "yaml" } else { "wide" };
            let seen = self.kubectl(&["get", objects, "--all-namespaces", "-o", output]);
            // Without a control plane there is nothing to store.
            if let Ok(seen) = seen {
                fs::write(into.join(file), seen).with_context(|| format!("write {file}"))?;
            }
        }
        Ok(())
    }

    /// Removes both nodes. Fails if anything is left behind.
    pub fn stop(self) -> Result<()> {
        let Self { first, second, .. } = self;
        let stopped = second.stop();
        first.stop()?;
        stopped
    }
}
