//! A store that is put back to an older state.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::ids::PodName;

use super::MemoryPods;

/// What an API server keeps of pods.
#[derive(Debug, Clone)]
pub struct Backup {
    version: u64,
    pods: BTreeMap<PodName, Arc<Pod>>,
}

impl MemoryPods {
    /// All that is kept.
    pub fn backup(&self) -> Backup {
        let state = self.shared.state();
        Backup { version: state.version, pods: state.pods.clone() }
    }

    /// Puts the store back to an older state; versions are counted from there. Who follows begins anew.
    pub fn restore(&self, backup: Backup) {
        self.shared.change(|state| {
            (state.version, state.pods) = (backup.version, backup.pods);
            state.expired += 1;
        });
    }
}
