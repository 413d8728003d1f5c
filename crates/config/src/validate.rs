//! Checks on a complete configuration, one function per theme.
//!
//! Types leave out much that is wrong (a negative count, an unknown word); what they cannot say is
//! checked here. Checks that need the machine (swap, capacity) belong to those who know it, apart
//! from the cgroup version, which two fields speak about.

mod eviction;
mod images;
mod node;
mod observability;
mod pods;
mod resources;
mod server;

use std::fmt;

use crate::fields::KubeletConfiguration;
use crate::finding::{FieldError, Findings};
use crate::gates::{self, FeatureGates};

/// Checks a complete configuration; every wrong field is noted.
pub fn validate(config: &KubeletConfiguration, findings: &mut Findings) {
    let gates = config.features();
    gates::check(&config.feature_gates, findings);
    pods::check(config, &gates, findings);
    server::check(config, &gates, findings);
    node::check(config, findings);
    images::check(config, &gates, findings);
    resources::check(config, &gates, findings);
    eviction::check(config, &gates, findings);
    observability::check(config, &gates, findings);
}

/// The version of the cgroup tree of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupVersion {
    /// One tree per controller, or both kinds at once.
    V1,
    /// One tree.
    V2,
}

/// Checks the fields that speak about the cgroup version of the machine.
pub fn validate_cgroup_version(
    config: &KubeletConfiguration,
    version: CgroupVersion,
) -> Vec<FieldError> {
    let mut findings = Findings::default();
    if version == CgroupVersion::V1 {
        findings.require(
            !config.fail_cgroup_v1,
            "failCgroupV1",
            "this machine has cgroup v1, which is refused unless the field is false",
        );
        findings.require(
            config.single_process_oom_kill != Some(false),
            "singleProcessOOMKill",
            "must not be false on cgroup v1, where the kernel always picks a single process",
        );
        findings.require(
            config.memory_swap.swap_behavior != Some(crate::SwapBehavior::LimitedSwap),
            "memorySwap.swapBehavior",
            "must not be LimitedSwap on cgroup v1",
        );
    }
    findings.errors
}

impl KubeletConfiguration {
    /// Which features are on under this configuration.
    pub fn features(&self) -> FeatureGates<'_> {
        FeatureGates::new(gates::none(), &self.feature_gates)
    }
}

impl Findings {
    /// Notes an error unless the condition holds.
    pub(crate) fn require(
        &mut self,
        holds: bool,
        field: impl fmt::Display,
        problem: impl fmt::Display,
    ) {
        if !holds {
            self.error(field, problem);
        }
    }
}
