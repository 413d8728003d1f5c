//! The node's addresses, as its pods hear of them.

use std::net::IpAddr;
use std::sync::Arc;

use model::ports::addresses::HostIps;
use node::NodeHandle;

use crate::wiring::Settings;

/// Those of the node's object, where there is a cluster; else those of the start.
pub(crate) fn host_ips(settings: &Settings, node: Option<&NodeHandle>) -> Arc<dyn HostIps> {
    let at_start = settings.host_ips.clone();
    match node.cloned() {
        Some(node) => Arc::new(OfNode { node, at_start }),
        None => Arc::new(at_start),
    }
}

#[derive(Debug)]
struct OfNode {
    node: NodeHandle,
    /// Before anything else is known: static pods do not wait for a cluster.
    at_start: Vec<IpAddr>,
}

impl HostIps for OfNode {
    fn host_ips(&self) -> Vec<IpAddr> {
        self.node.host_ips().unwrap_or_else(|| self.at_start.clone())
    }
}
