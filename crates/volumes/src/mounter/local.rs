//! Directories of the node that are persistent volumes.

use std::path::Path;

use model::go_text::quoted;
use model::ids::PodUid;
use model::ports::events::PodEvent;
use model::ports::volumes::{FileSystem, HostPathError, HostPathKind};
use model::volume::{Ownership, Place};
use podspec::view;

use super::{MountFailure, MountRequest, ownership};
use crate::decide::resolve::{VolumeSource, VolumeSpec};
use crate::manager::ManagerParts;

/// Mounts a directory of the node for a pod.
pub(super) async fn mount(
    parts: &ManagerParts,
    uid: &PodUid,
    request: &MountRequest,
) -> Result<(), MountFailure> {
    let MountRequest { pod, spec, .. } = request;
    let VolumeSource::Local { path, .. } = &spec.source else { return Ok(()) };
    let (host, path) = (&parts.host, Path::new(path));
    if spec.is_block {
        return map_device(parts, uid, request, path).await;
    }
    let place = parts.layout.volume(uid, &spec.id);
    match host.check_host_path(path, HostPathKind::Directory).await {
        Ok(()) => host.bind(path, &place, spec.read_only).await?,
        Err(wrong @ HostPathError::WrongKind { .. }) => {
            if host.check_host_path(path, HostPathKind::BlockDevice).await.is_err() {
                return Err(wrong.into());
            }
            bind_device(parts, spec, &place).await?;
        }
        Err(error) => return Err(error.into()),
    }
    match ownership(pod, spec, spec.read_only) {
        // The containers of another pod rely on the group that it has.
        Some(ownership) if request.is_shared => {
            let group = parts.host.group(&place).await?;
            if group != ownership.group {
                report_other_group(parts, request, ownership, group);
            }
        }
        Some(ownership) if !spec.read_only => {
            ownership::set(parts, pod, &place, &ownership).await?;
        }
        _ => {}
    }
    Ok(())
}

/// Gives the pod a device, which the runtime passes on. The events are upstream's.
async fn map_device(
    parts: &ManagerParts,
    uid: &PodUid,
    request: &MountRequest,
    device: &Path,
) -> Result<(), MountFailure> {
    let MountRequest { pod, spec, .. } = request;
    parts.host.check_host_path(device, HostPathKind::BlockDevice).await?;
    let places = parts.layout.device_places(uid, &spec.id);
    parts.host.map_device(device, &places).await?;
    let name = view::pod_name(pod);
    for (field, place) in [("globalMapPath", places.map), ("volumeMapPath", places.link)] {
        let path = place.path();
        let directory = quoted(&path.parent().unwrap_or(&path).to_string_lossy());
        let volume = quoted(&spec.id.name);
        let message =
            format!("MapVolume.MapPodDevice succeeded for volume {volume} {field} {directory}");
        let (uid, name) = (uid.clone(), name.clone());
        parts.events.record(PodEvent::normal(uid, name, "SuccessfulMountVolume", message));
    }
    Ok(())
}

/// The text is upstream's.
fn report_other_group(parts: &ManagerParts, request: &MountRequest, wanted: Ownership, group: u32) {
    let MountRequest { pod, spec, .. } = request;
    let message = format!(
        "The requested fsGroup is {}, but the volume {} has GID {group}. The volume may not be shareable.",
        wanted.group, spec.id.name
    );
    let (uid, name) = (view::uid(pod), view::pod_name(pod));
    parts.events.record(PodEvent::warning(uid, name, "AlreadyMountedVolume", message));
}

/// Mounts the file system of a block device once for the node, and binds it for the pod.
async fn bind_device(
    parts: &ManagerParts,
    spec: &VolumeSpec,
    place: &Place,
) -> Result<(), MountFailure> {
    let VolumeSource::Local { path, fs_type, options } = &spec.source else { return Ok(()) };
    let device = parts.layout.local_device(&spec.id.name);
    parts.host.make_directory(&device, 0o750).await?;
    let file_system = FileSystem::Device {
        device: path.into(),
        fs_type: fs_type.clone(),
        read_only: false,
        options: options.clone(),
    };
    parts.host.mount(&device, &file_system).await?;
    parts.host.bind(&device.path(), place, spec.read_only).await?;
    // The last pod that used it may have ended meanwhile: then an empty directory was bound.
    if parts.host.mounts(&device.path()).await?.is_empty() {
        parts.host.unmount(place).await?;
        return Err(MountFailure::set_up("the device was unmounted meanwhile"));
    }
    Ok(())
}
