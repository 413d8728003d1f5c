//! Settings of the node, fixed at the start.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use config::KubeletConfiguration;
use config::gates::FeatureGates;
use k8s_openapi::api::core::v1::Taint;
use model::machine::Identity;
use podspec::resources::Amounts;

use super::configured::taints;

/// Settings of a node beyond its configuration.
#[derive(Debug, Clone, Default)]
pub struct NodeParameters {
    /// The name of the object.
    pub name: String,
    /// The host's name, which `--hostname-override` replaces.
    pub hostname: String,
    /// Go's name of the architecture.
    pub architecture: String,
    /// From `--node-labels`.
    pub labels: BTreeMap<String, String>,
    /// From `--node-ip`: none, one, or one of each IP family.
    pub ips: Vec<IpAddr>,
    /// Whether `--cloud-provider` is `external`.
    pub external_cloud: bool,
    /// The version for the node object: `v1.36.3+ferrolet.0.1.0`.
    pub kubelet_version: String,
    /// Whether the machine uses cgroup v1.
    pub cgroup_v1: bool,
    /// The identity of the machine.
    pub identity: Identity,
    /// Missing features that do not affect readiness, in upstream's words.
    pub lacks: Option<&'static str>,
    /// The capacity of the node.
    pub capacity: Amounts,
    /// The allocatable resources.
    pub allocatable: Amounts,
    /// Resources of device plugins of an earlier agent; this agent has none of them.
    pub former_devices: BTreeSet<String>,
    /// Declared features, by upstream's names. Only those are published whose
    /// feature gate is on.
    pub declared_features: Vec<&'static str>,
}

/// Everything that does not change while the agent runs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Settings beyond the configuration.
    pub own: NodeParameters,
    /// Whether the agent creates the node object.
    pub register: bool,
    /// Labels of a new object.
    pub taints: Vec<Taint>,
    /// Taints of a new object, if any.
    pub provider_id: String,
    /// Whether a controller attaches volumes.
    pub controller_attach_detach: bool,
    /// Whether a node is not ready without a known disk size.
    pub local_storage: bool,
    /// The port of the agent's server.
    pub port: u16,
    /// The maximum number of images in the status; `None` for all.
    pub most_images: Option<usize>,
    /// The period of status checks.
    pub update_frequency: Duration,
    /// The period of writes without a change.
    pub report_frequency: Duration,
    /// The lease duration.
    pub lease_duration: Duration,
}

impl Settings {
    /// The settings of a node with this configuration.
    pub fn new(config: &KubeletConfiguration, mut own: NodeParameters) -> Self {
        let gates = FeatureGates::new(&config.feature_gates, &config.feature_gates);
        let declares = gates.enabled("NodeDeclaredFeatures");
        own.declared_features.retain(|name| declares && gates.enabled(name));
        own.declared_features.sort_unstable();
        own.declared_features.dedup();
        Self {
            taints: taints(config),
            register: config.register_node,
            provider_id: config.provider_id.clone(),
            controller_attach_detach: config.enable_controller_attach_detach,
            local_storage: config.local_storage_capacity_isolation,
            port: config.port,
            most_images: usize::try_from(config.node_status_max_images).ok(),
            update_frequency: config.node_status_update_frequency.to_std(),
            report_frequency: config.node_status_report_frequency.to_std(),
            lease_duration: Duration::from_secs(config.node_lease_duration_seconds.into()),
            own,
        }
    }

    /// The timeout of a call that keeps the node alive.
    pub fn answer_time(&self) -> Duration {
        self.update_frequency.min(self.lease_duration)
    }
}
