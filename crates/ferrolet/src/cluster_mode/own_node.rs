//! The node's own object and its lease.

use std::collections::BTreeMap;
use std::sync::Arc;

use config::KubeletConfiguration;
use model::machine::Cgroups;
use node::{NodeHandle, NodePorts, Particulars, SelfCheck, Unwell};
use pods::decide::admission::Ability;
use podspec::resources::Amounts;
use tokio::time::Instant;

use crate::decide::node::go_arch;
use crate::tasks::Tasks;
use crate::version::{FERROLET, KUBERNETES};
use crate::wiring::{Ports, Settings};

/// What the agent can do beyond what every node can.
const FEATURES: [&str; 3] = [
    Ability::InPlacePodLevelResourcesVerticalScaling.gate(),
    "InPlacePodVerticalScalingInitContainers",
    Ability::RestartAllContainersOnContainerExits.gate(),
];

/// What a node says of itself: as it is configured, with labels and addresses (`--node-ip`) of its own.
pub(crate) fn settings(
    config: &KubeletConfiguration,
    (labels, node_ip): (&BTreeMap<String, String>, &str),
    agent: &Settings,
    capacity: Amounts,
) -> node::Settings {
    let asked = !node_ip.trim().is_empty();
    let own = Particulars {
        name: agent.node_name.clone(),
        hostname: agent.node_name.clone(),
        architecture: go_arch(std::env::consts::ARCH).to_owned(),
        labels: labels.clone(),
        ips: if asked { agent.node.ips.clone() } else { Vec::new() },
        external_cloud: false,
        kubelet_version: format!("{KUBERNETES}+ferrolet.{FERROLET}"),
        cgroup_v1: agent.node.machine.cgroups == Cgroups::V1,
        identity: hostfs::identity(),
        capacity,
        allocatable: agent.node.allocatable.clone(),
        declared_features: FEATURES.to_vec(),
    };
    node::Settings::new(config, own)
}

/// Starts to keep the node's object and its lease, where there is a cluster.
pub(crate) fn keep(
    settings: &Settings,
    ports: &Ports,
    pleg: pleg::Health,
    tasks: &mut Tasks,
) -> Option<NodeHandle> {
    let (cluster, own) = (ports.cluster.as_ref()?, settings.own_node.clone()?);
    let ports = NodePorts {
        api: Arc::clone(&cluster.node),
        leases: Arc::clone(&cluster.leases),
        runtime: Arc::clone(&ports.runtime),
        addresses: Arc::clone(&cluster.addresses),
        events: Arc::clone(&ports.node_events),
        clock: Arc::clone(&ports.clock),
        checks: vec![Arc::new(Pleg(pleg))],
    };
    let (node, handle) = node::node(own, ports);
    tasks.spawn("own node", |stop| node.feed.run(stop));
    tasks.spawn("look at the node", |stop| node.look.run(stop));
    tasks.spawn("runtime check", |stop| node.check.run(stop));
    tasks.spawn("node status", |stop| node.status.run(stop));
    tasks.spawn("node lease", |stop| node.lease.run(stop));
    Some(handle)
}

/// Whether the runtime is still looked at.
#[derive(Debug)]
struct Pleg(pleg::Health);

impl SelfCheck for Pleg {
    fn unwell(&self) -> Option<Unwell> {
        let problem = self.0.check(Instant::now()).err()?.to_string();
        Some(Unwell { part: "PLEG", problem })
    }
}
