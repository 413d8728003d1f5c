//! The node's addresses in pod statuses (`hostIPs`).

use std::net::IpAddr;
use std::sync::Arc;

use model::ports::addresses::HostIps;
use node::NodeHandle;
use pods::decide::worker::Update;
use pods::workers::WorkersHandle;
use process::tasks::Tasks;
use status::store::StatusReader;

use crate::wiring::Settings;

/// The addresses of the Node object in a cluster, else those found at the start.
pub(crate) fn host_ips(settings: &Settings, node: Option<&NodeHandle>) -> Arc<dyn HostIps> {
    let at_start = settings.host_ips.clone();
    match node.cloned() {
        Some(node) => Arc::new(NodeAddresses { node, at_start }),
        None => Arc::new(at_start),
    }
}

/// Publishes the status of all pods again when the node's addresses change: such a change alone triggers no
/// sync of a pod.
pub(crate) fn follow_host_ips(
    settings: &Settings,
    node: Option<&NodeHandle>,
    workers: &WorkersHandle,
    statuses: &StatusReader,
    tasks: &mut Tasks,
) {
    let Some(node) = node.cloned() else { return };
    let (workers, statuses) = (workers.clone(), statuses.clone());
    let at_start = settings.host_ips.clone();
    tasks.spawn("addresses of the node", |stop| async move {
        let mut known = node.host_ips();
        let follow = async {
            loop {
                let other = node.other_host_ips(known.as_deref()).await;
                let is_reported =
                    other.as_ref().unwrap_or(&at_start) == known.as_ref().unwrap_or(&at_start);
                known = other;
                if is_reported {
                    continue;
                }
                for uid in statuses.entries().into_keys() {
                    workers.update(uid, Update::Sync).await;
                }
            }
        };
        stop.run_until_cancelled(follow).await;
    });
}

#[derive(Debug)]
struct NodeAddresses {
    node: NodeHandle,
    /// Used until the Node object is known: static pods do not wait for a cluster.
    at_start: Vec<IpAddr>,
}

impl HostIps for NodeAddresses {
    fn host_ips(&self) -> Vec<IpAddr> {
        self.node.host_ips().unwrap_or_else(|| self.at_start.clone())
    }
}
