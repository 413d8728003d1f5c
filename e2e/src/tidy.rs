//! Whether a node has what its pods need, and nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use testbed::wait;

use crate::containerd::{self, RuntimeContainer};
use crate::node::{NODE_NAME, Node};

/// A pod that should run: its name in the manifest and its containers.
#[derive(Debug, Clone, Copy)]
pub struct WantedPod<'a> {
    /// The name in the manifest.
    pub name: &'a str,
    /// Each runs once.
    pub containers: &'a [&'a str],
}

/// Waits until exactly these pods run, each container once in one sandbox, and every address and network namespace
/// belongs to a sandbox.
pub fn wait_tidy(node: &Node, wanted: &[WantedPod<'_>], time: Duration) -> Result<()> {
    let what = format!("just {} pod(s) run, and nothing else is taken", wanted.len());
    node.explained(wait::until(&what, time, || {
        let problems = problems(node, wanted)?;
        Ok(if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) })
    }))
}

/// What is missing, and what is left over.
fn problems(node: &Node, wanted: &[WantedPod<'_>]) -> Result<Vec<String>> {
    let mut alive = containerd::containers(node.instance())?;
    alive.retain(RuntimeContainer::is_alive);
    let mut problems = missing(&alive, wanted);
    let slots = wanted.iter().flat_map(|pod| {
        let names = pod.containers.iter().chain([&""]);
        names.map(|name| (format!("{}-{NODE_NAME}", pod.name), (*name).to_owned()))
    });
    let slots: BTreeSet<(String, String)> = slots.collect();
    for found in &alive {
        if !slots.contains(&(found.pod.clone(), found.name.clone())) {
            problems.push(format!("left over: {found:?}"));
        }
    }
    let sandboxes: Vec<&RuntimeContainer> =
        alive.iter().filter(|found| found.is_sandbox()).collect();
    let ids: BTreeSet<String> = sandboxes.iter().map(|sandbox| sandbox.id.clone()).collect();
    problems.extend(differences("address", &holders_of_addresses(node)?, &ids));
    let namespaces: BTreeSet<String> =
        sandboxes.iter().map(|sandbox| file_name(&sandbox.netns)).collect();
    problems.extend(differences("network namespace", &network_namespaces(node)?, &namespaces));
    Ok(problems)
}

/// Each wanted container, and each pod's sandbox, runs exactly once.
fn missing(alive: &[RuntimeContainer], wanted: &[WantedPod<'_>]) -> Vec<String> {
    let mut problems = Vec::new();
    for pod in wanted {
        let of_pod =
            || alive.iter().filter(|found| found.pod == format!("{}-{NODE_NAME}", pod.name));
        for name in pod.containers.iter().chain([&""]) {
            let running = of_pod().filter(|found| found.name == *name && found.state == "RUNNING");
            let count = running.count();
            if count != 1 {
                let name = if name.is_empty() { "sandbox" } else { name };
                problems.push(format!("{} of {} runs {count} times", name, pod.name));
            }
        }
    }
    problems
}

fn differences(what: &str, taken: &BTreeSet<String>, used: &BTreeSet<String>) -> Vec<String> {
    let idle = taken.difference(used).map(|idle| format!("no sandbox for the {what} of {idle}"));
    let lacking = used.difference(taken).map(|lacking| format!("no {what} for {lacking}"));
    idle.chain(lacking).collect()
}

/// The sandboxes that have addresses, from the files of the IPAM plugin.
fn holders_of_addresses(node: &Node) -> Result<BTreeSet<String>> {
    let directory = node.instance().dir().join("ipam/testbed");
    let mut holders = BTreeSet::new();
    // The directory is created with the first address.
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let entry = entry.context("read the directory of addresses")?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.parse::<IpAddr>().is_err() {
            continue;
        }
        // The address was released just now.
        let Ok(text) = fs::read_to_string(entry.path()) else { continue };
        holders.insert(text.lines().next().unwrap_or_default().trim().to_owned());
    }
    Ok(holders)
}

/// The network namespaces that were made for pods.
fn network_namespaces(node: &Node) -> Result<BTreeSet<String>> {
    Ok(node.names_in("/run/netns")?.into_iter().collect())
}

fn file_name(path: &str) -> String {
    Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned()
}
