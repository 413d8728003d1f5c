//! Directories of a pod's own, on disk or in memory.

use k8s_openapi::api::core::v1::Pod;
use model::ids::PodUid;
use model::ports::volumes::FileSystem;
use model::volume::{Ownership, Place};
use podspec::resources::pod_requests;

use super::{MountFailure, MountRequest, ownership};
use crate::decide::memory_size::memory_size;
use crate::decide::resolve::{Medium, VolumeSource};
use crate::manager::ManagerParts;

/// The mode: containers may write as any user.
const MODE: u32 = 0o777;

/// Mounts an `emptyDir`.
pub(super) async fn mount(
    parts: &ManagerParts,
    uid: &PodUid,
    request: &MountRequest,
) -> Result<(), MountFailure> {
    let MountRequest { pod, spec, .. } = request;
    let VolumeSource::EmptyDir { medium, size_limit } = &spec.source else { return Ok(()) };
    let (place, marker) =
        (parts.layout.volume(uid, &spec.id), parts.layout.ready_marker(uid, &spec.id));
    let file_system = match medium {
        Medium::Disk => None,
        Medium::Memory => Some(memory(parts, pod, *size_limit)),
        Medium::HugePages(size) => {
            Some(FileSystem::HugePages { page_size: page_size(pod, size.as_deref())? })
        }
    };
    if is_ready(parts, &place, &marker, file_system.is_some()).await? {
        return Ok(());
    }
    let ownership = ownership(pod, spec, false)
        // The policy only matters for volumes with data of earlier pods.
        .map(|ownership| Ownership { only_on_root_mismatch: false, ..ownership });
    set_up(parts, &place, file_system.as_ref()).await?;
    if let Some(ownership) = ownership {
        ownership::set(parts, pod, &place, &ownership).await?;
    }
    parts.host.make_directory(&marker, 0o750).await?;
    Ok(())
}

/// The file system of a volume in memory.
pub(super) fn memory(parts: &ManagerParts, pod: &Pod, size_limit: Option<u64>) -> FileSystem {
    let allocatable = parts.node.allocatable();
    let allocatable =
        allocatable.get("memory").and_then(|memory| u64::try_from(memory.value()).ok());
    let size =
        allocatable.map(|allocatable| memory_size(pod, allocatable, size_limit)).or(size_limit);
    FileSystem::Tmpfs { size, no_swap: true }
}

/// Creates the directory, and mounts its file system there if it has one.
pub(super) async fn set_up(
    parts: &ManagerParts,
    place: &Place,
    file_system: Option<&FileSystem>,
) -> Result<(), MountFailure> {
    parts.host.make_directory(place, MODE).await?;
    if let Some(file_system) = file_system {
        parts.host.mount(place, file_system).await?;
        // The root of a new file system has another mode.
        parts.host.make_directory(place, MODE).await?;
    }
    Ok(())
}

/// Whether the volume was set up before, by this agent or an earlier one. Containers may have changed its root since, so
/// it is left alone.
pub(super) async fn is_ready(
    parts: &ManagerParts,
    place: &Place,
    marker: &Place,
    is_mount: bool,
) -> Result<bool, MountFailure> {
    let (host, parent) = (&parts.host, |place: &Place| Place {
        root: place.root.clone(),
        below: place.below.parent().map(ToOwned::to_owned).unwrap_or_default(),
    });
    let is_in = |names: Vec<String>, place: &Place| {
        names.iter().any(|name| place.below.file_name().is_some_and(|own| own == name.as_str()))
    };
    if !is_in(host.directories(&parent(marker)).await?, marker) {
        return Ok(false);
    }
    if !is_mount {
        return Ok(is_in(host.directories(&parent(place)).await?, place));
    }
    let path = place.path();
    Ok(host.mounts(&path).await?.iter().any(|mount| mount.path == path))
}

/// The page size of a volume in huge pages, as the kernel writes it.
fn page_size(pod: &Pod, size: Option<&str>) -> Result<String, MountFailure> {
    let requests = pod_requests(pod);
    let sizes: Vec<&str> =
        requests.keys().filter_map(|name| name.strip_prefix("hugepages-")).collect();
    let size = match (size, sizes.as_slice()) {
        (Some(size), sizes) if sizes.contains(&size) => size,
        (Some(size), _) => {
            let text = format!("medium HugePages-{size} is not requested by any container");
            return Err(MountFailure::set_up(text));
        }
        (None, [one]) => one,
        (None, []) => {
            let text = "no hugepage page size is requested by any container";
            return Err(MountFailure::set_up(text));
        }
        (None, _) => {
            return Err(MountFailure::set_up("multiple hugepage page sizes are requested"));
        }
    };
    // `2Mi` is `2M` to the kernel.
    Ok(size.trim_end_matches('i').to_owned())
}
