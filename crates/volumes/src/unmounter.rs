//! Unmounts a volume, and removes its directories.

use model::go_text;
use model::ids::{PodName, PodUid};
use model::ports::files::FileError;
use model::volume::{Plugin, VolumeId};

use crate::ended_volumes;
use crate::manager::ManagerParts;

/// Unmounts a volume of a pod that has ended.
pub(crate) async fn unmount(
    parts: &ManagerParts,
    uid: &PodUid,
    pod: Option<&PodName>,
    id: &VolumeId,
) -> Result<(), String> {
    steps(parts, uid, pod, id).await.map_err(|error| {
        format!(
            "UnmountVolume.TearDown failed for volume {:?} : {}",
            id.name,
            go_text::file_error(&error)
        )
    })
}

async fn steps(
    parts: &ManagerParts,
    uid: &PodUid,
    pod: Option<&PodName>,
    id: &VolumeId,
) -> Result<(), FileError> {
    let ManagerParts { host, layout, .. } = parts;
    host.clean_subpaths(&layout.subpaths(uid), &id.name).await?;
    if matches!(id.plugin, Plugin::HostPath | Plugin::Image) {
        return Ok(());
    }
    if id.plugin == Plugin::Local {
        host.unmap_device(&layout.device_places(uid, id)).await?;
    }
    let place = layout.volume(uid, id);
    host.unmount(&place).await?;
    if id.plugin == Plugin::Local {
        unmount_device(parts, id).await?;
    }
    // Only the empty directory of a mount point is left. It is removed with the pod's directory.
    if matches!(id.plugin, Plugin::Local | Plugin::Nfs) {
        return Ok(());
    }
    let verdict = ended_volumes::verdict(parts, uid, pod, id);
    parts.files.remove(&layout.pods, &verdict).await.map(drop)
}

/// Unmounts the device of a local volume that no pod has mounted any more.
async fn unmount_device(parts: &ManagerParts, id: &VolumeId) -> Result<(), FileError> {
    let ManagerParts { host, layout, .. } = parts;
    let device = layout.local_device(&id.name);
    let own = std::path::Path::new("volumes").join(id.plugin.directory()).join(&*id.name);
    if host.mounts(&layout.pods).await?.iter().any(|mount| mount.path.ends_with(&own)) {
        return Ok(());
    }
    host.unmount(&device).await
}
