//! What of the node matters to its pods.

use std::net::IpAddr;
use std::path::PathBuf;

use model::machine::Machine;
use podspec::resources::Amounts;

use super::pull_queue::PullSlots;
use super::pull_rate::PullRate;
use super::resources::LimitSettings;
use super::user_namespace::IdSpan;

/// The node, as it is configured and found.
#[derive(Debug, Clone, Default)]
pub struct NodeSettings {
    /// Where the agent keeps what is its pods'.
    pub root_dir: PathBuf,
    /// What pods can have of the node.
    pub allocatable: Amounts,
    /// What the machine is.
    pub machine: Machine,
    /// How pods are limited.
    pub limits: LimitSettings,
    /// How images are pulled.
    pub pulls: PullSettings,
    /// What `--node-ip` says, where it says something.
    pub asked_ips: Vec<IpAddr>,
    /// Name servers of the cluster.
    pub cluster_dns: Vec<IpAddr>,
    /// The cluster's domain; empty when it has none.
    pub cluster_domain: String,
    /// The file that tells the host's name servers; none when pods are to have none of them.
    pub resolv_conf: Option<PathBuf>,
    /// Whether containers that do not say get the runtime's seccomp profile.
    pub seccomp_default: bool,
    /// Whether pods may say their whole host name.
    pub hostname_overrides: bool,
    /// Whether containers may say which signal ends them.
    pub stop_signals: bool,
    /// How many user ids a pod with a user namespace gets.
    pub ids_per_pod: u32,
    /// The ids of the host that are set aside for them, if any are.
    pub ids_of_pods: Option<IdSpan>,
}

/// How images are pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PullSettings {
    /// How many at a time.
    pub slots: PullSlots,
    /// How many per second.
    pub rate: PullRate,
}

impl NodeSettings {
    /// Whether addresses of the sixth version of IP come first in what is told of pods. The addresses that the node
    /// was found to have say nothing about it.
    pub fn prefers_v6(&self) -> bool {
        self.asked_ips.first().is_some_and(IpAddr::is_ipv6)
    }
}
