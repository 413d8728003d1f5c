//! Persistent volumes and their claims.

use std::collections::BTreeMap;

use async_trait::async_trait;
use model::ports::cluster::ApiError;
use model::ports::objects::StorageReads;
use model::storage::{ClaimName, ClaimRecord, PersistentVolumeRecord};

use super::{ApiCall, MemoryCluster};

/// Claims and persistent volumes by name.
#[derive(Debug, Default)]
pub(super) struct Storage {
    claims: BTreeMap<ClaimName, ClaimRecord>,
    volumes: BTreeMap<String, PersistentVolumeRecord>,
}

impl MemoryCluster {
    /// Creates or replaces a claim.
    pub fn put_claim(&self, name: &ClaimName, claim: ClaimRecord) {
        self.shared.change(|state| state.storage.claims.insert(name.clone(), claim));
    }

    /// Removes a claim.
    pub fn drop_claim(&self, name: &ClaimName) {
        self.shared.change(|state| state.storage.claims.remove(name));
    }

    /// Creates or replaces a persistent volume.
    pub fn put_persistent_volume(&self, name: &str, volume: PersistentVolumeRecord) {
        self.shared.change(|state| state.storage.volumes.insert(name.to_owned(), volume));
    }

    /// Removes a persistent volume.
    pub fn drop_persistent_volume(&self, name: &str) {
        self.shared.change(|state| state.storage.volumes.remove(name));
    }
}

#[async_trait]
impl StorageReads for MemoryCluster {
    async fn claim(&self, name: &ClaimName) -> Result<Option<ClaimRecord>, ApiError> {
        let read = |state: &mut super::State| Ok(state.storage.claims.get(name).cloned());
        self.call(ApiCall::Claim, &name.to_string(), read).await
    }

    async fn persistent_volume(
        &self,
        name: &str,
    ) -> Result<Option<PersistentVolumeRecord>, ApiError> {
        let read = |state: &mut super::State| Ok(state.storage.volumes.get(name).cloned());
        self.call(ApiCall::PersistentVolume, name, read).await
    }
}
