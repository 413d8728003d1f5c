//! The volumes of a pod that is removed.

use model::ids::PodUid;
use model::ports::files::FileError;
use model::ports::volumes::VolumeHost;
use model::volume::{Plugin, VolumeId, VolumeLayout};

/// Unmounts the volumes of a pod. Returns those on the node's disk, which can be removed. Volumes of
/// unsupported plugins are left alone.
pub(super) async fn unmount(
    volumes: &dyn VolumeHost,
    layout: &VolumeLayout,
    uid: &PodUid,
) -> Result<Vec<VolumeId>, FileError> {
    let subpaths = layout.subpaths(uid);
    for volume in volumes.directories(&subpaths).await? {
        volumes.clean_subpaths(&subpaths, &volume).await?;
    }
    unmap_devices(volumes, layout, uid).await?;
    let mut on_disk = Vec::new();
    let plugins = layout.pod(uid).join("volumes");
    for directory in volumes.directories(&plugins).await? {
        let Some(plugin) = Plugin::from_directory(&directory) else { continue };
        for name in volumes.directories(&plugins.join(&directory)).await? {
            let id = VolumeId::new(plugin, &name);
            volumes.unmount(&layout.volume(uid, &id)).await?;
            // The directories of other volumes were only mount points. Empty ones are removed with the pod's
            // directory.
            if plugin == Plugin::EmptyDir || plugin.requires_remount() {
                on_disk.push(id);
            }
        }
    }
    Ok(on_disk)
}

/// Unmaps the block devices of a pod. Links to unmapped devices are removed with the pod's directory.
async fn unmap_devices(
    volumes: &dyn VolumeHost,
    layout: &VolumeLayout,
    uid: &PodUid,
) -> Result<(), FileError> {
    let maps = layout.device_maps(Plugin::Local);
    for volume in volumes.directories(&maps).await? {
        let places = layout.device_places(uid, &VolumeId::new(Plugin::Local, &volume));
        volumes.unmap_device(&places).await?;
    }
    Ok(())
}
