//! The volume mounts in the status of a container. The runtime does not report
//! volume names, so they follow from the specification and the features of the runtime.

use k8s_openapi::api::core::v1::{Container, VolumeMountStatus};
use podspec::recursive_read_only::is_requested;

/// The mounts of a container; `recursive` is whether its runtime supports recursive
/// read-only mounts.
pub(crate) fn volume_mounts(
    container: &Container,
    recursive: bool,
) -> Option<Vec<VolumeMountStatus>> {
    let mounts = container.volume_mounts.as_ref().filter(|mounts| !mounts.is_empty())?;
    let statuses = mounts.iter().map(|mount| {
        let read_only = mount.read_only == Some(true);
        let mode = if recursive && is_requested(mount) { "Enabled" } else { "Disabled" };
        VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only: read_only.then_some(true),
            recursive_read_only: read_only.then(|| mode.to_owned()),
            volume_status: None,
        }
    });
    Some(statuses.collect())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::VolumeMount;
    use podspec::recursive_read_only::requests_recursive_read_only;

    use super::*;
    use crate::decide::test_pods::{container, pod, with_init};

    fn mounted(mount: VolumeMount) -> Container {
        let mount = VolumeMount { name: "v".to_owned(), mount_path: "/v".to_owned(), ..mount };
        Container { volume_mounts: Some(vec![mount]), ..container("main") }
    }

    // behaviour: STW-42
    #[test]
    fn mount_status_follows_specification_and_runtime_support() {
        // read-only, recursive, propagation; the published mode with and without support
        let rows = [
            (None, None, None, [None, None]),
            (Some(false), None, None, [None, None]),
            (Some(true), None, None, [Some("Disabled"); 2]),
            (Some(true), Some("Disabled"), None, [Some("Disabled"); 2]),
            (Some(true), Some("Enabled"), None, [Some("Enabled"), Some("Disabled")]),
            (Some(true), Some("IfPossible"), Some("None"), [Some("Enabled"), Some("Disabled")]),
            (Some(true), Some("IfPossible"), Some("HostToContainer"), [Some("Disabled"); 2]),
            (Some(false), Some("IfPossible"), None, [None, None]),
        ];
        for (read_only, mode, propagation, expected) in rows {
            let container = mounted(VolumeMount {
                read_only,
                recursive_read_only: mode.map(ToOwned::to_owned),
                mount_propagation: propagation.map(ToOwned::to_owned),
                ..VolumeMount::default()
            });
            let modes = [true, false].map(|recursive| {
                let mount = volume_mounts(&container, recursive).unwrap().remove(0);
                assert_eq!((mount.name.as_str(), mount.mount_path.as_str()), ("v", "/v"));
                assert_eq!(mount.read_only, read_only.filter(|read_only| *read_only));
                mount.recursive_read_only
            });
            let modes = modes.each_ref().map(Option::as_deref);
            assert_eq!(modes, expected, "{read_only:?} {mode:?} {propagation:?}");
        }
        assert_eq!(volume_mounts(&container("main"), true), None);
    }

    #[test]
    fn runtime_support_is_checked_only_when_needed() {
        let requesting = |mode: &str| {
            mounted(VolumeMount {
                read_only: Some(true),
                recursive_read_only: Some(mode.to_owned()),
                ..VolumeMount::default()
            })
        };
        let plain = || pod("Always", &["main"]);
        assert!(!requests_recursive_read_only(&plain()));
        for (mode, expected) in [("Disabled", false), ("IfPossible", true), ("Enabled", true)] {
            let pod = with_init(plain(), vec![requesting(mode)]);
            assert_eq!(requests_recursive_read_only(&pod), expected, "{mode}");
        }
    }
}
