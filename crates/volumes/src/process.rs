//! Determines the volumes of a pod: those that it uses, and those that an earlier agent left on the host.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use model::chain::Chain;
use model::ids::PodUid;
use model::ports::files::FileError;
use model::ports::objects::{ObjectError, StorageReads};
use model::volume::{Plugin, VolumeId};

use crate::decide::resolve::{
    Claims, PersistentVolumes, Resolved, Storage, claims, persistent_volumes, resolve,
};
use crate::manager::ManagerParts;

/// The resolved volumes of a pod.
#[derive(Debug)]
pub(crate) struct Processed {
    /// The volumes that the pod uses; `None` for one that has ended.
    pub(crate) resolved: Option<Resolved>,
    /// Volumes on the host; `None` if the host was not searched.
    pub(crate) found: Option<Result<Vec<VolumeId>, FileError>>,
}

/// Determines the volumes of a pod.
pub(crate) async fn process(
    parts: &ManagerParts,
    uid: &PodUid,
    pod: Option<Arc<Pod>>,
    scan: bool,
) -> Processed {
    let found = if scan { Some(volumes_on_host(parts, uid).await) } else { None };
    let resolved = match pod {
        Some(pod) => Some(resolve_pod(parts.storage.as_deref(), &pod).await),
        None => None,
    };
    Processed { resolved, found }
}

/// The volumes that have a directory, or parts of which are mounted.
async fn volumes_on_host(parts: &ManagerParts, uid: &PodUid) -> Result<Vec<VolumeId>, FileError> {
    let ManagerParts { host, layout, .. } = parts;
    let mut found = Vec::new();
    let volumes = layout.pod(uid).join("volumes");
    for directory in host.directories(&volumes).await? {
        // Of a plugin that this agent does not have: removing the pod's directory reports it.
        let Some(plugin) = Plugin::from_directory(&directory) else { continue };
        let names = host.directories(&volumes.join(&directory)).await?;
        found.extend(names.iter().map(|name| VolumeId::new(plugin, name)));
    }
    // A device has a link.
    let links = layout.device_links(uid);
    for directory in host.directories(&links).await? {
        let Some(plugin) = Plugin::from_directory(&directory) else { continue };
        let names = parts.files.list(&links.join(&directory).path()).await?;
        found.extend(names.iter().map(|name| VolumeId::new(plugin, name)));
    }
    // A host path has no directory, but parts of it may be mounted.
    for name in host.directories(&layout.subpaths(uid)).await? {
        if !found.iter().any(|id| *id.name == *name) {
            found.push(VolumeId::new(Plugin::HostPath, &name));
        }
    }
    Ok(found)
}

async fn resolve_pod(storage: Option<&dyn StorageReads>, pod: &Pod) -> Resolved {
    let names = claims(pod);
    let mut read: Claims = BTreeMap::new();
    let mut volumes: PersistentVolumes = BTreeMap::new();
    if let Some(storage) = storage.filter(|_| !names.is_empty()) {
        let claims = join_all(names.into_iter().map(|name| async move {
            let claim = storage.claim(&name).await;
            let claim = claim.map_err(|error| ObjectError::NotRead(Chain(&error).to_string()));
            let missing = || ObjectError::NotFound {
                resource: "persistentvolumeclaims",
                name: name.name.clone(),
            };
            let claim = claim.and_then(|claim| claim.map(Arc::new).ok_or_else(missing));
            (name, claim)
        }));
        read.extend(claims.await);
        let all = join_all(persistent_volumes(&read).into_iter().map(|name| async move {
            let volume = storage.persistent_volume(&name).await;
            let volume = volume.map_err(|error| ObjectError::NotRead(Chain(&error).to_string()));
            let missing =
                || ObjectError::NotFound { resource: "persistentvolumes", name: name.clone() };
            let volume = volume.and_then(|volume| volume.map(Arc::new).ok_or_else(missing));
            (name, volume)
        }));
        volumes.extend(all.await);
    }
    resolve(pod, &Storage { claims: &read, volumes: &volumes })
}
