//! What probes have said of running containers.

use std::collections::BTreeMap;

use model::ids::ContainerId;

/// What a probe says of a container, once it has counted up to its threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeResult {
    /// It is as it should be.
    Success,
    /// It is not.
    Failure,
}

/// The results of startup and liveness probes by instance. Nothing is known of an instance that is
/// not there.
#[derive(Debug, Clone, Default)]
pub struct ProbeResults {
    /// Of startup probes.
    pub startup: BTreeMap<ContainerId, ProbeResult>,
    /// Of liveness probes.
    pub liveness: BTreeMap<ContainerId, ProbeResult>,
}

impl ProbeResults {
    pub(super) fn failed_startup(&self, id: &ContainerId) -> bool {
        self.startup.get(id) == Some(&ProbeResult::Failure)
    }

    pub(super) fn failed_liveness(&self, id: &ContainerId) -> bool {
        self.liveness.get(id) == Some(&ProbeResult::Failure)
    }
}
