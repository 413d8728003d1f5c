//! Settings of our agent that the kubelet does not have, for its flag `--ferrolet-config`.

use std::fs;

use anyhow::{Context, Result};

use crate::node::Node;

/// For tests that wait for the next pass of container GC. Upstream's period is a minute.
pub const FREQUENT_GC: &str = "gc: {containers: {period: 2s}}";

/// Writes settings to a file of the node; returns the flag that names it.
pub fn own_settings(node: &Node, settings: &str) -> Result<String> {
    let path = node.root_dir().with_file_name("own.yaml");
    let text = format!("apiVersion: ferrolet/v1alpha1\nkind: FerroletConfiguration\n{settings}\n");
    fs::write(&path, text).context("write the agent's own settings")?;
    Ok(format!("--ferrolet-config={}", path.display()))
}
