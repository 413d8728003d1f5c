//! Directories of the node that are persistent volumes.

use std::path::Path;
use std::sync::Arc;

use model::ids::PodUid;
use model::ports::volumes::HostPathKind;

use super::{MountFailure, MountRequest, ownership};
use crate::decide::resolve::VolumeSource;
use crate::manager::ManagerParts;

/// Mounts a directory of the node for a pod.
pub(super) async fn mount(
    parts: &ManagerParts,
    uid: &PodUid,
    request: &MountRequest,
) -> Result<(), MountFailure> {
    let MountRequest { pod, spec, .. } = request;
    let VolumeSource::Local { path, .. } = &spec.source else { return Ok(()) };
    let path = Path::new(path);
    parts.host.check_host_path(path, HostPathKind::Directory).await?;
    let place = parts.layout.volume(uid, &spec.id);
    parts.host.bind(path, &place, spec.read_only).await?;
    if let Some(ownership) = ownership(pod, spec, spec.read_only).filter(|_| !spec.read_only) {
        parts.host.set_ownership(&place, &ownership, Arc::new(|_| ())).await?;
    }
    Ok(())
}
