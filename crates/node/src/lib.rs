//! The node in the API server: its object, its status and its lease.
//!
//! ```text
//!  runtime ──RuntimeCheck──┐                          ┌──> node object: created, reconciled, status patched
//!  addresses, images ─Observer─┼─> Facts ──decide──> StatusTask
//!  NodeHandle (images…) ───┘                          └──> events
//!  API server ──OwnNodeFeed──> the current object ───> StatusTask, LeaseTask, PodCidrs, NodeHandle
//! ```
//! Inputs: [`Settings`] from the configuration and the machine; [`NodePorts`]; state from other parts
//! through the [`NodeHandle`]. Outputs: the node object, the lease, events of the node, and the object as
//! the server has it ([`NodeHandle::node`]).
//!
//! Invariants:
//! - nothing is written that the Node authorizer or the admission plugin `NodeRestriction` rejects;
//! - the status is written when it changes, and otherwise every `nodeStatusReportFrequency`; checking
//!   for a change needs no API call;
//! - conditions, labels, resources and taints of other clients are kept;
//! - a patch applies to the object that was seen, not to another one of its name;
//! - a deleted node object is created again, and becomes the owner of the lease;
//! - the lease is renewed even if the status cannot be written.
//!
//! Wiring: [`node()`] returns the tasks, each with a `run(stop)`, and the handle.
//! ```text
//! let own = NodeParameters { name, hostname, architecture, labels, ips, kubelet_version, identity,
//!     capacity, allocatable, declared_features: vec!["RestartAllContainersOnContainerExits"],
//!     external_cloud: false, cgroup_v1 };
//! let (node, handle) = node::node(Settings::new(&config, own), ports);
//! tasks.spawn("own node", |stop| node.feed.run(stop));
//! tasks.spawn("node observer", |stop| node.observer.run(stop));
//! tasks.spawn("runtime check", |stop| node.check.run(stop));
//! tasks.spawn("node status", |stop| node.status.run(stop));
//! tasks.spawn("node lease", |stop| node.lease.run(stop));
//! tasks.spawn("addresses of pods", |stop| node.pod_cidrs.run(stop));
//! tasks.spawn("CSI node", |stop| node.csi_node.run(stop));
//! ```

mod csi_node;
pub mod decide;
mod handle;
mod lease;
mod metrics;
mod observer;
mod own_node;
mod pod_cidrs;
mod ports;
mod register;
mod runtime_check;
mod status;

use std::sync::Arc;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

pub use csi_node::CsiNodeTask;
pub use decide::health::{Pressure, UnhealthyPart};
pub use decide::settings::{NodeParameters, Settings};
pub use handle::{NodeHandle, ReportedRuntime};
pub use lease::LeaseTask;
pub use metrics::Metrics;
pub use observer::Observer;
pub use own_node::OwnNodeFeed;
pub use pod_cidrs::PodCidrs;
pub use ports::{NodePorts, SelfCheck};
pub use runtime_check::RuntimeCheck;
pub use status::StatusTask;

use decide::facts::Facts;
use own_node::OwnNode;

/// The tasks that maintain the node on the API server. All of them run until `stop` is cancelled.
#[derive(Debug)]
pub struct NodeTasks {
    /// Follows the node's own object.
    pub feed: OwnNodeFeed,
    /// Observes addresses and images.
    pub observer: Observer,
    /// Checks the state of the runtime.
    pub check: RuntimeCheck,
    /// Creates the node object and maintains its status.
    pub status: StatusTask,
    /// Renews the lease.
    pub lease: LeaseTask,
    /// Sends the pod CIDRs to the runtime.
    pub pod_cidrs: PodCidrs,
    /// Maintains the CSI node.
    pub csi_node: CsiNodeTask,
}

/// The tasks of a node, and the handle for other parts.
pub fn node(settings: Settings, ports: NodePorts) -> (NodeTasks, NodeHandle) {
    let (settings, start) = (Arc::new(settings), Instant::now());
    let facts = watch::Sender::new(Facts::default());
    let own = OwnNode::default();
    let (observe_again, check_again) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handle = NodeHandle {
        facts: facts.clone(),
        own: own.clone(),
        api: Arc::clone(&ports.api),
        name: settings.own.name.as_str().into(),
        observe_again: Arc::clone(&observe_again),
        check_again: Arc::clone(&check_again),
    };
    let name = settings.own.name.clone();
    let tasks = NodeTasks {
        feed: OwnNodeFeed { api: Arc::clone(&ports.api), own: own.clone(), name },
        observer: Observer::new(Arc::clone(&settings), &ports, facts.clone(), observe_again),
        check: RuntimeCheck::new(
            Arc::clone(&ports.runtime.info),
            facts.clone(),
            check_again,
            start,
        ),
        lease: LeaseTask::new(&settings, &ports, own.clone()),
        csi_node: CsiNodeTask::new(&settings, &ports, own.clone()),
        pod_cidrs: PodCidrs { runtime: Arc::clone(&ports.runtime.info), own: own.clone() },
        status: StatusTask::new(settings, ports, facts.subscribe(), own, start),
    };
    (tasks, handle)
}
