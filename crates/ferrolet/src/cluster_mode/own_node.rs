//! The node's own object and its lease.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use allocation::decide::admission::Ability;
use async_trait::async_trait;
use config::KubeletConfiguration;
use model::machine::Cgroups;
use node::{NodeHandle, NodeParameters, NodePorts, SelfCheck, UnhealthyPart};
use podspec::resources::Amounts;
use process::tasks::Tasks;
use process::version::{FERROLET, KUBERNETES};
use prometheus::Registry;
use runtime::decide::NodeSettings;
use tokio::time::Instant;

use crate::decide::node::go_arch;
use crate::wiring::{Ports, Settings};

/// Features that this agent declares in the node status.
const FEATURES: [&str; 4] = [
    Ability::InPlacePodLevelResourcesVerticalScaling.gate(),
    Ability::InPlacePodVerticalScalingInitContainers.gate(),
    Ability::RestartAllContainersOnContainerExits.gate(),
    Ability::UserNamespacesHostNetworkSupport.gate(),
];

/// The message for a kernel without CFS quota.
const NO_CPU_LIMITS: &str = "CPU hardcapping unsupported";

/// The inputs of the Node object that are not part of the configuration.
#[derive(Debug)]
pub(crate) struct NodeInputs {
    pub(crate) name: String,
    /// From `--node-labels`.
    pub(crate) labels: BTreeMap<String, String>,
    /// From `--node-ip`, as on the command line.
    pub(crate) ips: Vec<IpAddr>,
    /// Whether `--cloud-provider` is `external`.
    pub(crate) external_cloud: bool,
    /// The node's capacity and allocatable.
    pub(crate) capacity: Amounts,
    /// Resources that device plugins registered with an earlier agent.
    pub(crate) former_devices: BTreeSet<String>,
}

/// The settings of the Node object.
pub(crate) fn settings(
    config: &KubeletConfiguration,
    node: &NodeSettings,
    given: NodeInputs,
) -> node::Settings {
    let own = NodeParameters {
        hostname: given.name.clone(),
        name: given.name,
        architecture: go_arch(std::env::consts::ARCH).to_owned(),
        labels: given.labels,
        ips: given.ips,
        external_cloud: given.external_cloud,
        kubelet_version: format!("{KUBERNETES}+ferrolet.{FERROLET}"),
        cgroup_v1: node.machine.cgroups == Cgroups::V1,
        identity: hostfs::identity(),
        lacks: (!hostfs::limits_processors(node.machine.cgroups)).then_some(NO_CPU_LIMITS),
        capacity: given.capacity,
        allocatable: node.allocatable.clone(),
        declared_features: FEATURES.to_vec(),
        former_devices: given.former_devices,
    };
    node::Settings::new(config, own)
}

/// Starts the tasks that maintain the Node object and its lease, where there is a cluster.
pub(crate) fn start_node(
    settings: &Settings,
    ports: &Ports,
    pleg: pleg::Health,
    tasks: &mut Tasks,
) -> Option<NodeHandle> {
    let (cluster, own) = (ports.cluster.as_ref()?, settings.own_node.clone()?);
    let ports = NodePorts {
        metrics: metrics(&ports.metrics),
        api: Arc::clone(&cluster.node),
        leases: Arc::clone(&cluster.leases),
        csi_nodes: Arc::clone(&cluster.csi_nodes),
        runtime: ports.runtime.clone(),
        addresses: Arc::clone(&cluster.addresses),
        events: Arc::clone(&ports.node_events),
        clock: Arc::clone(&ports.clock),
        checks: vec![Arc::new(Pleg(pleg))],
    };
    let (node, handle) = node::node(own, ports);
    tasks.spawn("own node", |stop| node.feed.run(stop));
    tasks.spawn("node observer", |stop| node.observer.run(stop));
    tasks.spawn("runtime check", |stop| node.check.run(stop));
    tasks.spawn("node status", |stop| node.status.run(stop));
    tasks.spawn("node lease", |stop| node.lease.run(stop));
    tasks.spawn("addresses of pods", |stop| node.pod_cidrs.run(stop));
    tasks.spawn("CSI node", |stop| node.csi_node.run(stop));
    Some(handle)
}

fn metrics(registry: &Registry) -> node::Metrics {
    let metrics = node::Metrics::new(registry).expect("no other part measures the node status");
    metrics.booted(Instant::now().checked_sub(hostfs::uptime()))
}

/// Whether the PLEG is healthy.
#[derive(Debug)]
struct Pleg(pleg::Health);

#[async_trait]
impl SelfCheck for Pleg {
    fn unwell(&self) -> Option<UnhealthyPart> {
        let problem = self.0.check(Instant::now()).err()?.to_string();
        Some(UnhealthyPart { part: "PLEG", problem })
    }

    async fn well(&self) {
        self.0.clone().healthy().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: NODE-17
    #[test]
    fn declared_features_follow_the_feature_gates() {
        let mut config = KubeletConfiguration::default();
        let declared = |config: &KubeletConfiguration| {
            let given = NodeInputs {
                name: "n".to_owned(),
                labels: BTreeMap::new(),
                ips: Vec::new(),
                external_cloud: false,
                capacity: Amounts::new(),
                former_devices: BTreeSet::new(),
            };
            settings(config, &NodeSettings::default(), given).own.declared_features
        };
        let users = "UserNamespacesHostNetworkSupport";
        assert!(!declared(&config).contains(&users), "its gate is off");
        config.feature_gates.insert(users.to_owned(), true);
        assert!(declared(&config).contains(&users));
    }

    // behaviour: NODE-6, NODE-13
    #[test]
    fn node_flags_reach_the_node_settings() {
        let config = KubeletConfiguration::default();
        let any = "::".parse().unwrap();
        let given = NodeInputs {
            name: "n".to_owned(),
            labels: [("zone".to_owned(), "a".to_owned())].into(),
            ips: vec![any],
            external_cloud: true,
            capacity: Amounts::new(),
            former_devices: ["example.com/x".to_owned()].into(),
        };
        let own = settings(&config, &NodeSettings::default(), given).own;
        assert!(own.external_cloud && own.former_devices.contains("example.com/x"));
        assert_eq!((own.ips, own.labels["zone"].as_str()), (vec![any], "a"));
    }
}
