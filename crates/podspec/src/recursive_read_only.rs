//! Recursive read-only mounts.

use k8s_openapi::api::core::v1::{Container, Pod, VolumeMount};

use crate::view;

/// Whether mounts below a mount should be read-only too; upstream's `resolveRecursiveReadOnly`.
pub fn is_requested(mount: &VolumeMount) -> bool {
    let wants = matches!(mount.recursive_read_only.as_deref(), Some("Enabled" | "IfPossible"));
    let alone = matches!(mount.mount_propagation.as_deref(), None | Some("None"));
    wants && alone
}

/// Whether a pod has such a mount: then its runtime must support it.
pub fn requests_recursive_read_only(pod: &Pod) -> bool {
    let has_one = |one: &Container| one.volume_mounts.iter().flatten().any(is_requested);
    let mut all = view::init_containers(pod).iter().chain(view::containers(pod));
    all.any(has_one) || view::ephemeral_containers(pod).iter().any(has_one)
}
