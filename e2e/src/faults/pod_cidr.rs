//! Rounds of a node in a cluster: it gets a pod CIDR, which its agent sends to the runtime.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use testbed::ControlPlaneOptions;

use super::{IMPATIENT, STAGE, check_methods};
use crate::api::Patch;
use crate::cluster_node::ClusterNode;
use crate::cri_proxy::CriProxy;
use crate::node::{NODE_NAME, PATIENCE};
use crate::tidy::wait_tidy;

/// Only the agent of such a node calls this method.
const METHOD: &str = "UpdateRuntimeConfig";

/// The addresses.
const CIDR: &str = "10.9.0.0/24";

/// A round for each of these kinds of faults: another agent meets the fault, sends the CIDR all the same, and runs a
/// pod that leaves nothing behind.
pub fn pod_cidr_faults(kinds: &[&str]) -> Result<()> {
    let mut cluster = ClusterNode::start(&ControlPlaneOptions::default())?;
    let proxy = cluster.put_proxy_before_runtime(IMPATIENT)?;
    for kind in kinds {
        round(&mut cluster, &proxy, kind).with_context(|| format!("{METHOD}={kind}"))?;
    }
    let spoilt = proxy.spoilt()?;
    let met = spoilt.get(METHOD).copied().unwrap_or_default();
    ensure!(usize::try_from(met)? == kinds.len(), "{met} calls of {METHOD} met a fault");
    check_methods(&proxy, Some(METHOD))?;
    cluster.stop()
}

fn round(cluster: &mut ClusterNode, proxy: &CriProxy, kind: &str) -> Result<()> {
    proxy.fault(&format!("{METHOD}={kind}"))?;
    cluster.start_agent()?;
    cluster.wait_node_ready()?;
    // A node keeps its first CIDRs.
    let addresses = json!({ "spec": { "podCIDR": CIDR, "podCIDRs": [CIDR] } });
    cluster.api().patch(&format!("/api/v1/nodes/{NODE_NAME}"), Patch::Strategic, &addresses)?;
    let node = cluster.node();
    node.explained(proxy.wait_until_met(STAGE))?;
    node.explained(proxy.wait_until_done(STAGE))?;
    node.wait_for_log(&["Updated pod CIDR of the runtime", CIDR])?;

    cluster.make_pod("web", &["sleep", "forever"])?;
    let path = ClusterNode::pod_path("web");
    cluster.wait_ready(&path)?;
    cluster.api().delete(&path)?;
    cluster.wait_gone(&path, PATIENCE)?;
    wait_tidy(cluster.node(), &[], STAGE).context("the pod ends")?;
    proxy.clear()?;
    cluster.kill_agent()
}
