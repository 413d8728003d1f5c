//! What the node is told about itself once, at its start.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use config::KubeletConfiguration;
use config::gates::FeatureGates;
use k8s_openapi::api::core::v1::Taint;
use model::machine::Identity;
use podspec::resources::Amounts;

use super::configured::taints;

/// What a node is told besides its configuration.
#[derive(Debug, Clone, Default)]
pub struct Particulars {
    /// The name of the object.
    pub name: String,
    /// The host's name, which `--hostname-override` replaces.
    pub hostname: String,
    /// What Go calls this kind of machine.
    pub architecture: String,
    /// From `--node-labels`.
    pub labels: BTreeMap<String, String>,
    /// From `--node-ip`: none, one, or one of each version of IP.
    pub ips: Vec<IpAddr>,
    /// Whether `--cloud-provider` is `external`.
    pub external_cloud: bool,
    /// As the node object tells it: `v1.36.3+ferrolet.0.1.0`.
    pub kubelet_version: String,
    /// Whether the machine has the first version of cgroups.
    pub cgroup_v1: bool,
    /// What the machine is.
    pub identity: Identity,
    /// What the machine lacks that a node can do without, in upstream's words.
    pub lacks: Option<&'static str>,
    /// All that the node has.
    pub capacity: Amounts,
    /// What pods can have of it.
    pub allocatable: Amounts,
    /// Resources that device plugins gave to an agent before this one, which has none of them.
    pub former_devices: BTreeSet<String>,
    /// What the agent can do beyond what every node can, by upstream's names. Only those count whose
    /// feature gate is on.
    pub declared_features: Vec<&'static str>,
}

/// All that does not change while the agent runs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What is told besides the configuration.
    pub own: Particulars,
    /// Whether the agent makes the node object.
    pub register: bool,
    /// What the object gets when it is made.
    pub taints: Vec<Taint>,
    /// What the object gets when it is made, if anything.
    pub provider_id: String,
    /// Whether a controller attaches volumes.
    pub controller_attach_detach: bool,
    /// Whether a node without a size of its disk is not ready.
    pub local_storage: bool,
    /// Where the agent serves.
    pub port: u16,
    /// How many images are told; none for all.
    pub most_images: Option<usize>,
    /// From one look at what there is to tell to the next.
    pub update_frequency: Duration,
    /// How often it is told without a change.
    pub report_frequency: Duration,
    /// How long others wait for a sign of life.
    pub lease_duration: Duration,
}

impl Settings {
    /// The settings of a node with that configuration.
    pub fn new(config: &KubeletConfiguration, mut own: Particulars) -> Self {
        let gates = FeatureGates::new(&config.feature_gates, &config.feature_gates);
        let told = gates.enabled("NodeDeclaredFeatures");
        own.declared_features.retain(|name| told && gates.enabled(name));
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

    /// How long a call that keeps the node alive may take.
    pub fn answer_time(&self) -> Duration {
        self.update_frequency.min(self.lease_duration)
    }
}
