//! Results of the startup and liveness probes of running containers.

use std::collections::BTreeMap;

use model::ids::ContainerId;
use model::probe::ProbeFailure;

/// The stored result of a probe, after as many equal verdicts as its threshold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeResult {
    /// The container passes.
    Success,
    /// The container fails and is killed.
    Failure(ProbeFailure),
}

/// Results of startup and liveness probes by container instance. An instance without a result is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbeResults {
    /// Startup probes.
    pub startup: BTreeMap<ContainerId, ProbeResult>,
    /// Liveness probes.
    pub liveness: BTreeMap<ContainerId, ProbeResult>,
}

impl ProbeResults {
    pub(super) fn startup_failure(&self, id: &ContainerId) -> Option<&ProbeFailure> {
        failure(self.startup.get(id))
    }

    pub(super) fn liveness_failure(&self, id: &ContainerId) -> Option<&ProbeFailure> {
        failure(self.liveness.get(id))
    }
}

fn failure(result: Option<&ProbeResult>) -> Option<&ProbeFailure> {
    match result? {
        ProbeResult::Success => None,
        ProbeResult::Failure(failure) => Some(failure),
    }
}
