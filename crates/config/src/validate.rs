//! Checks on a complete configuration, one function per theme.
//!
//! Types exclude many errors (a negative count, an unknown word); the others are
//! checked here. Checks that need the machine (swap, capacity) are elsewhere, except
//! for the cgroup version, which two fields depend on.

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

/// Validates a complete configuration; every invalid field is reported.
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

/// The cgroup version of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupVersion {
    /// Cgroup v1, or a hybrid of both versions.
    V1,
    /// Cgroup v2.
    V2,
}

/// Validates the fields that depend on the cgroup version of the machine.
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
    /// The feature gates of this configuration.
    pub fn features(&self) -> FeatureGates<'_> {
        FeatureGates::new(gates::none(), &self.feature_gates)
    }
}

impl Findings {
    /// Reports an error unless the condition holds.
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
