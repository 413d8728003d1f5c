//! Restoring the store from a backup.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::ids::PodName;

use super::MemoryPods;

/// The pods of an API server.
#[derive(Debug, Clone)]
pub struct Backup {
    version: u64,
    pods: BTreeMap<PodName, Arc<Pod>>,
}

impl MemoryPods {
    /// A backup.
    pub fn backup(&self) -> Backup {
        let state = self.shared.state();
        Backup { version: state.version, pods: state.pods.clone() }
    }

    /// Restores a backup; versions continue from there. The watches restart with a list.
    pub fn restore(&self, backup: Backup) {
        self.shared.change(|state| {
            (state.version, state.pods) = (backup.version, backup.pods);
            state.expired += 1;
        });
    }
}
