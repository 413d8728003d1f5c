//! The settings and properties of the node for its pods.

use std::net::IpAddr;
use std::path::PathBuf;

use model::machine::Machine;
use podspec::resources::Amounts;

use super::pull_queue::PullSlots;
use super::pull_rate::PullRate;
use super::resources::LimitSettings;
use super::user_namespace::IdSpan;

/// The node.
#[derive(Debug, Clone, Default)]
pub struct NodeSettings {
    /// The directories of pods.
    pub root_dir: PathBuf,
    /// The allocatable resources.
    pub allocatable: Amounts,
    /// The machine.
    pub machine: Machine,
    /// The limit settings.
    pub limits: LimitSettings,
    /// The pull settings.
    pub pulls: PullSettings,
    /// The value of `--node-ip`, if set.
    pub requested_ips: Vec<IpAddr>,
    /// The cluster's DNS servers.
    pub cluster_dns: Vec<IpAddr>,
    /// The cluster domain; empty without one.
    pub cluster_domain: String,
    /// The host's `resolv.conf` for pods; `None` if disabled.
    pub resolv_conf: Option<PathBuf>,
    /// Whether `RuntimeDefault` is the default seccomp profile.
    pub seccomp_default: bool,
    /// Whether pods may set `hostnameOverride`.
    pub hostname_overrides: bool,
    /// Whether containers may set their stop signal.
    pub stop_signals: bool,
    /// The number of user IDs of a pod with a user namespace.
    pub ids_per_pod: u32,
    /// The host IDs reserved for user namespaces, if any.
    pub ids_of_pods: Option<IdSpan>,
}

/// How images are pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PullSettings {
    /// The limit of parallel pulls.
    pub slots: PullSlots,
    /// The rate limit.
    pub rate: PullRate,
}

impl NodeSettings {
    /// Whether IPv6 addresses come first in pod IPs. The detected addresses of the node have no
    /// influence.
    pub fn prefers_v6(&self) -> bool {
        self.requested_ips.first().is_some_and(IpAddr::is_ipv6)
    }
}
