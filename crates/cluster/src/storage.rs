//! Individual persistent volumes and claims: a node may not list or watch them.

use async_trait::async_trait;
use model::ports::cluster::ApiError;
use model::ports::objects::StorageReads;
use model::storage::{ClaimName, ClaimRecord, PersistentVolumeRecord};

use crate::call::{Call, found};
use crate::decode::storage::{Claim, PersistentVolume};
use crate::{Cluster, urls};

#[async_trait]
impl StorageReads for Cluster {
    async fn claim(&self, name: &ClaimName) -> Result<Option<ClaimRecord>, ApiError> {
        let (namespace, name) = (urls::part(&name.namespace), urls::part(&name.name));
        let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}");
        let claim: Option<Claim> = found(self.caller.send_decoded(Call::get(path)).await)?;
        Ok(claim.map(Claim::record))
    }

    async fn persistent_volume(
        &self,
        name: &str,
    ) -> Result<Option<PersistentVolumeRecord>, ApiError> {
        let path = format!("/api/v1/persistentvolumes/{}", urls::part(name));
        let volume: Option<PersistentVolume> =
            found(self.caller.send_decoded(Call::get(path)).await)?;
        Ok(volume.map(PersistentVolume::record))
    }
}
