//! How the volumes of a container are mounted, as its status tells it. The runtime knows nothing of
//! their names, so this is what the specification and the abilities of the runtime make of it.

use k8s_openapi::api::core::v1::{Container, VolumeMountStatus};
use podspec::recursive_read_only::asks;

/// The mounts of a container, where `recursive` says whether its runtime can keep from being written
/// what is mounted below them too.
pub(crate) fn volume_mounts(
    container: &Container,
    recursive: bool,
) -> Option<Vec<VolumeMountStatus>> {
    let mounts = container.volume_mounts.as_ref().filter(|mounts| !mounts.is_empty())?;
    let told = mounts.iter().map(|mount| {
        let read_only = mount.read_only == Some(true);
        let mode = if recursive && asks(mount) { "Enabled" } else { "Disabled" };
        VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only: read_only.then_some(true),
            recursive_read_only: read_only.then(|| mode.to_owned()),
            volume_status: None,
        }
    });
    Some(told.collect())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::VolumeMount;
    use podspec::recursive_read_only::asks_for_recursive_read_only;

    use super::*;
    use crate::decide::test_pods::{container, pod, with_init};

    fn mounted(mount: VolumeMount) -> Container {
        let mount = VolumeMount { name: "v".to_owned(), mount_path: "/v".to_owned(), ..mount };
        Container { volume_mounts: Some(vec![mount]), ..container("main") }
    }

    // behaviour: STW-42
    #[test]
    fn a_mount_is_told_as_it_is_specified_and_as_far_as_the_runtime_can() {
        // read-only, recursive, propagation; what is told with and without the ability
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
            let told = [true, false].map(|recursive| {
                let told = volume_mounts(&container, recursive).unwrap().remove(0);
                assert_eq!((told.name.as_str(), told.mount_path.as_str()), ("v", "/v"));
                assert_eq!(told.read_only, read_only.filter(|read_only| *read_only));
                told.recursive_read_only
            });
            let told = told.each_ref().map(Option::as_deref);
            assert_eq!(told, expected, "{read_only:?} {mode:?} {propagation:?}");
        }
        assert_eq!(volume_mounts(&container("main"), true), None);
    }

    #[test]
    fn the_runtime_is_asked_only_where_a_container_asks_for_it() {
        let asking = |mode: &str| {
            mounted(VolumeMount {
                read_only: Some(true),
                recursive_read_only: Some(mode.to_owned()),
                ..VolumeMount::default()
            })
        };
        let plain = || pod("Always", &["main"]);
        assert!(!asks_for_recursive_read_only(&plain()));
        for (mode, expected) in [("Disabled", false), ("IfPossible", true), ("Enabled", true)] {
            let pod = with_init(plain(), vec![asking(mode)]);
            assert_eq!(asks_for_recursive_read_only(&pod), expected, "{mode}");
        }
    }
}
