//! Volumes that refer to a claim.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Volume};
use model::ports::objects::ObjectError;
use model::storage::{
    ClaimName, ClaimRecord, PersistentVolumeRecord, PersistentVolumeSource as Persisted,
};
use model::volume::{Plugin, VolumeId};
use podspec::view;

use super::source::{host_path, local};
use super::{OuterName, Persistent, ResolveError, Storage, Used, VolumeSource, VolumeSpec};

/// Why the persistent volume behind a claim cannot be used. The texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// The claim cannot be read.
    #[error("failed to fetch PVC from API server: {0}")]
    FetchClaim(ObjectError),
    /// The claim is being deleted, and is not kept for its pods.
    #[error("PVC is being deleted")]
    Deleted,
    /// The claim has no persistent volume yet.
    #[error("PVC is not bound")]
    NotBound,
    /// The claim does not name its persistent volume.
    #[error("PVC has empty pvc.Spec.VolumeName")]
    NoVolume,
    /// The persistent volume cannot be read.
    #[error("failed to fetch PV {name} from API server: {error}")]
    FetchVolume {
        /// The persistent volume.
        name: Box<str>,
        /// Why.
        error: ObjectError,
    },
    /// The persistent volume refers to no claim.
    #[error(
        "found PV object {0} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
    )]
    NoClaimRef(Box<str>),
    /// The persistent volume refers to another claim.
    #[error(
        "found PV object {name} but its pv.Spec.ClaimRef.UID {found} does not point to claim.UID {expected}"
    )]
    OtherClaim {
        /// The persistent volume.
        name: Box<str>,
        /// The uid of its claim.
        found: Box<str>,
        /// The uid of the pod's claim.
        expected: Box<str>,
    },
}

/// The claim of a pod's volume.
pub(super) struct Reference {
    pub(super) name: ClaimName,
    read_only: bool,
    /// The pod that must control the claim, if it is that of a generic ephemeral volume.
    owner: Option<Owner>,
}

struct Owner {
    uid: String,
    pod: String,
}

/// The claim that a volume refers to, if it refers to one.
pub(super) fn reference(pod: &Pod, volume: &Volume) -> Option<Reference> {
    let pod_name = view::pod_name(pod);
    let named =
        |name: &str| ClaimName { namespace: (&*pod_name.namespace).into(), name: name.into() };
    if let Some(claim) = &volume.persistent_volume_claim {
        let read_only = claim.read_only == Some(true);
        return Some(Reference { name: named(&claim.claim_name), read_only, owner: None });
    }
    volume.ephemeral.as_ref()?;
    let name = named(&format!("{}-{}", pod_name.name, volume.name));
    let owner = Owner { uid: view::uid(pod).as_str().to_owned(), pod: pod_name.to_string() };
    Some(Reference { name, read_only: false, owner: Some(owner) })
}

/// A claim that is ready: it names its persistent volume.
pub(super) fn ready(
    found: &Result<Arc<ClaimRecord>, ObjectError>,
) -> Result<&ClaimRecord, ClaimError> {
    let claim = found.as_ref().map_err(|error| ClaimError::FetchClaim(error.clone()))?;
    if claim.is_being_deleted && !claim.is_protected {
        Err(ClaimError::Deleted)
    } else if !claim.is_bound {
        Err(ClaimError::NotBound)
    } else if claim.volume.is_empty() {
        Err(ClaimError::NoVolume)
    } else {
        Ok(claim)
    }
}

/// The volume behind a claim.
pub(super) fn spec(
    reference: &Reference,
    volume: &Volume,
    used: &Used<'_>,
    storage: &Storage<'_>,
) -> Result<VolumeSpec, ResolveError> {
    let claim = &reference.name;
    let failed = |error| ResolveError::Claim { claim: claim.clone(), error };
    let unread = Err(not_found("persistentvolumeclaims", &claim.name));
    let record = ready(storage.claims.get(claim).unwrap_or(&unread)).map_err(failed)?;
    let name = &*record.volume;
    if let Some(owner) = &reference.owner
        && record.controller.as_deref() != Some(&*owner.uid)
    {
        let pod = owner.pod.clone();
        return Err(ResolveError::ForeignClaim { claim: claim.clone(), pod });
    }
    let persistent = persistent_volume(name, &record.uid, storage).map_err(failed)?;
    let is_block = check_mode(persistent, name, volume, used)?;
    let (plugin, source) = source(name, persistent, is_block)?;
    let fs_group_applies = plugin == Plugin::Local && !is_block && !reference.read_only;
    Ok(VolumeSpec {
        id: VolumeId::new(plugin, name),
        outer_names: vec![OuterName {
            name: volume.name.as_str().into(),
            read_only: reference.read_only,
        }],
        source,
        read_only: reference.read_only,
        is_block,
        fs_group_applies,
        persistent: Some(Arc::new(Persistent {
            claim: claim.clone(),
            node_affinity: persistent.node_affinity.clone(),
            is_for_one_pod: persistent.access_modes == ["ReadWriteOncePod"],
            group: persistent.group.as_ref().and_then(|group| group.parse().ok()),
        })),
    })
}

fn not_found(resource: &'static str, name: &str) -> ObjectError {
    ObjectError::NotFound { resource, name: name.into() }
}

/// The persistent volume of that name, if it is for the claim with that uid.
fn persistent_volume<'a>(
    name: &str,
    claim_uid: &str,
    storage: &Storage<'a>,
) -> Result<&'a PersistentVolumeRecord, ClaimError> {
    let record = match storage.volumes.get(name) {
        Some(Ok(record)) => record,
        found => {
            let error = match found {
                Some(Err(error)) => error.clone(),
                _ => not_found("persistentvolumes", name),
            };
            return Err(ClaimError::FetchVolume { name: name.into(), error });
        }
    };
    match record.claim_uid.as_deref() {
        Some(found) if found == claim_uid => Ok(record),
        Some(found) => Err(ClaimError::OtherClaim {
            name: name.into(),
            found: found.into(),
            expected: claim_uid.into(),
        }),
        None => Err(ClaimError::NoClaimRef(name.into())),
    }
}

/// Whether the volume is a block device, and containers use it as one.
fn check_mode(
    persistent: &PersistentVolumeRecord,
    name: &str,
    volume: &Volume,
    used: &Used<'_>,
) -> Result<bool, ResolveError> {
    let mode = persistent.mode.as_deref().ok_or_else(|| ResolveError::NoMode(name.into()))?;
    let rules =
        [(&used.mounts, "Filesystem", "volumeMounts"), (&used.devices, "Block", "volumeDevices")];
    for (names, expected, field) in rules {
        if names.contains(volume.name.as_str()) && mode != expected {
            let volume = volume.name.clone();
            return Err(ResolveError::Mode { volume, mode: mode.into(), field });
        }
    }
    Ok(mode == "Block")
}

fn source(
    name: &str,
    persistent: &PersistentVolumeRecord,
    is_block: bool,
) -> Result<(Plugin, VolumeSource), ResolveError> {
    let options = || persistent.mount_options.clone();
    let only_files = |kind: &str| {
        if is_block { Err(ResolveError::Block(kind.into())) } else { Ok(()) }
    };
    match &persistent.source {
        Persisted::HostPath { path, kind } => {
            only_files("hostPath")?;
            if !persistent.mount_options.is_empty() {
                return Err(ResolveError::MountOptions);
            }
            Ok((Plugin::HostPath, host_path(path, kind)?))
        }
        Persisted::Local { path, fs_type } => {
            Ok((Plugin::Local, local(name, path, fs_type.as_deref(), options())?))
        }
        Persisted::Nfs { server, path } => {
            only_files("nfs")?;
            let (server, path) = (server.clone(), path.clone());
            Ok((Plugin::Nfs, VolumeSource::Nfs { server, path, options: options() }))
        }
        Persisted::Other(kind) => Err(ResolveError::Unsupported(kind.clone())),
    }
}
