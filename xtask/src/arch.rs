//! The layers of the workspace, checked against `cargo metadata`.
//!
//! Dependencies go downwards only; development dependencies may in addition reach the test crates.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The layer of a workspace crate. A crate that is not listed here is a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    /// Types, ports and generated code that all layers may use.
    Model,
    /// Generated protocol code, raw system calls, and threads for calls that block: for adapters.
    Ground,
    /// Libraries next to the model, for subsystems.
    Shared,
    /// Access to the outside: runtime, files, API server.
    Adapter,
    /// One concern of the node each; subsystems never import one another.
    Subsystem,
    /// Wires the parts of one program.
    Agent,
    /// The command line, which starts the agents.
    Binary,
    /// In-memory implementations of the outside.
    Testkit,
    /// Whole-system tests and their tools.
    Test,
    /// Tools of the build.
    Tool,
}

const LAYERS: &[(Layer, &[&str])] = &[
    (Layer::Model, &["model"]),
    (Layer::Ground, &["proto", "sys", "blocking", "dbus"]),
    (Layer::Shared, &["config", "podspec", "journal"]),
    (Layer::Adapter, &["cri", "csi", "cluster", "hostfs", "fetch", "cgroups", "process"]),
    (
        Layer::Subsystem,
        &[
            "allocation",
            "pleg",
            "pods",
            "runtime",
            "gc",
            "probes",
            "stats",
            "status",
            "volumes",
            "images",
            "logs",
            "node",
            "server",
            "shutdown",
            "podgc",
            "events",
            "eviction",
            "objects",
            "oom",
            "certificates",
        ],
    ),
    (Layer::Agent, &["ferrolet", "podgc-main"]),
    (Layer::Binary, &["cli"]),
    (Layer::Testkit, &["testkit"]),
    (
        Layer::Test,
        &[
            "sim",
            "e2e",
            "bench",
            "conformance",
            "kubeadm",
            "testbed",
            "workload",
            "guest",
            "vm",
            "test-images",
        ],
    ),
    (Layer::Tool, &["xtask"]),
];

/// Exceptions to [`allowed`]: `server` serves gRPC, so it speaks generated messages.
const ALSO_ALLOWED: &[(&str, &str)] = &[("server", "proto")];

/// The only crates that may depend on an agent.
const AGENT_USERS: &[&str] = &["cli", "sim", "e2e"];

/// What a layer may depend on, in the shipped program.
fn allowed(from: Layer) -> &'static [Layer] {
    match from {
        Layer::Model | Layer::Ground | Layer::Tool => &[],
        Layer::Shared => &[Layer::Model],
        Layer::Adapter => &[Layer::Model, Layer::Ground],
        Layer::Subsystem => &[Layer::Model, Layer::Shared],
        Layer::Agent => &[Layer::Model, Layer::Shared, Layer::Adapter, Layer::Subsystem],
        Layer::Binary => {
            &[Layer::Model, Layer::Shared, Layer::Adapter, Layer::Subsystem, Layer::Agent]
        }
        // `hollow` serves the in-memory runtime over the CRI, hence the generated code.
        Layer::Testkit => &[Layer::Model, Layer::Ground, Layer::Shared],
        Layer::Test => &[
            Layer::Model,
            Layer::Ground,
            Layer::Shared,
            Layer::Adapter,
            Layer::Subsystem,
            Layer::Agent,
            Layer::Testkit,
            Layer::Test,
        ],
    }
}

/// What a layer may depend on in its own tests, beyond [`allowed`].
const ALLOWED_IN_TESTS: &[Layer] = &[Layer::Testkit, Layer::Test];

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// `null` for a normal dependency, else `dev` or `build`.
    kind: Option<String>,
}

pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root)
        .output()
        .context("run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Metadata =
        serde_json::from_slice(&output.stdout).context("read the answer of cargo metadata")?;
    Ok(violations(&metadata))
}

fn violations(metadata: &Metadata) -> Vec<String> {
    let layers: BTreeMap<&str, Layer> = LAYERS
        .iter()
        .flat_map(|(layer, names)| names.iter().map(move |name| (*name, *layer)))
        .collect();
    let members: BTreeSet<&str> = metadata.packages.iter().map(|p| p.name.as_str()).collect();
    let mut problems = Vec::new();
    for package in &metadata.packages {
        let Some(&from) = layers.get(package.name.as_str()) else {
            problems
                .push(format!("{}: has no layer; give it one in xtask/src/arch.rs", package.name));
            continue;
        };
        for dependency in &package.dependencies {
            if !members.contains(dependency.name.as_str()) {
                continue;
            }
            let Some(&to) = layers.get(dependency.name.as_str()) else {
                continue;
            };
            let in_tests = dependency.kind.as_deref() == Some("dev");
            let pair = (package.name.as_str(), dependency.name.as_str());
            let ok = allowed(from).contains(&to)
                || ALSO_ALLOWED.contains(&pair)
                || (in_tests && ALLOWED_IN_TESTS.contains(&to));
            let ok = ok && (to != Layer::Agent || AGENT_USERS.contains(&package.name.as_str()));
            if !ok {
                problems.push(format!(
                    "{} ({from:?}) must not depend on {} ({to:?})",
                    package.name, dependency.name
                ));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::{Dependency, Metadata, Package, violations};

    fn metadata(from: &str, to: &str, kind: Option<&str>) -> Metadata {
        let dependency = Dependency { name: to.into(), kind: kind.map(Into::into) };
        Metadata {
            packages: vec![
                Package { name: from.into(), dependencies: vec![dependency] },
                Package { name: to.into(), dependencies: vec![] },
            ],
        }
    }

    #[test]
    fn dependencies_on_upper_layers_are_reported() {
        let rows = [
            ("pleg", "model", None, true),
            ("model", "pleg", None, false),
            ("pleg", "pods", None, false),
            ("pleg", "cri", None, false),
            ("pods", "podspec", None, true),
            ("cri", "proto", None, true),
            ("cri", "config", None, false),
            ("ferrolet", "cri", None, true),
            ("ferrolet", "testkit", None, false),
            ("ferrolet", "testkit", Some("dev"), true),
            ("pleg", "testkit", Some("dev"), true),
            ("pleg", "pods", Some("dev"), false),
            ("pleg", "testkit", Some("build"), false),
            ("ferrolet", "podgc-main", None, false),
            ("podgc-main", "server", None, true),
            ("server", "process", None, false),
            ("server", "proto", None, true),
            ("server", "sys", None, false),
            ("pods", "proto", None, false),
            ("cli", "ferrolet", None, true),
            ("cli", "podgc-main", None, true),
            ("sim", "ferrolet", None, true),
            ("e2e", "ferrolet", None, true),
            ("bench", "ferrolet", None, false),
            ("testkit", "ferrolet", Some("dev"), false),
            ("e2e", "cli", None, false),
        ];
        for (from, to, kind, ok) in rows {
            let problems = violations(&metadata(from, to, kind));
            assert_eq!(problems.is_empty(), ok, "{from} -> {to} ({kind:?}): {problems:?}");
        }
    }

    #[test]
    fn crate_without_a_layer_is_reported() {
        let problems = violations(&metadata("newcomer", "model", None));
        assert_eq!(problems, ["newcomer: has no layer; give it one in xtask/src/arch.rs"]);
    }
}
