#![allow(clippy::too_many_lines, reason = "a table has one row per rule")]

use super::{check_rows, with_container};

// behaviour: VOL-61
#[test]
fn invalid_volume_mounts_have_upstream_errors() {
    const MOUNT: &str = "spec.containers[0].volumeMounts[0]";
    let mount = |fields: &str| with_container(&format!("volumeMounts: [{{{fields}}}]"));
    check_rows(
        &[
            ("a mount", "name: empty, mountPath: /a, subPath: b/c", &[]),
            ("an expression", "name: empty, mountPath: /a, subPathExpr: $(A)/b", &[]),
            (
                "nothing",
                "",
                &[
                    &format!("{MOUNT}.name: Required value"),
                    &format!("{MOUNT}.mountPath: Required value"),
                ],
            ),
            (
                "no such volume",
                "name: x, mountPath: /a",
                &[&format!("{MOUNT}.name: Not found: \"x\"")],
            ),
            (
                "a path with colon",
                "name: empty, mountPath: '/a:b'",
                &[&format!("{MOUNT}.mountPath: Invalid value: \"/a:b\": must not contain ':'")],
            ),
            (
                "an absolute part",
                "name: empty, mountPath: /a, subPath: /b",
                &[&format!("{MOUNT}.subPath: Invalid value: \"/b\": must be a relative path")],
            ),
            (
                "a part that climbs",
                "name: empty, mountPath: /a, subPathExpr: a/../..",
                &[&format!(
                    "{MOUNT}.subPathExpr: Invalid value: \"a/../..\": must not contain '..'"
                )],
            ),
            (
                "a part and an expression",
                "name: empty, mountPath: /a, subPath: a, subPathExpr: b",
                &[&format!(
                    "{MOUNT}.subPathExpr: Invalid value: \"b\": subPathExpr and subPath are \
                     mutually exclusive"
                )],
            ),
            (
                "an unknown propagation",
                "name: empty, mountPath: /a, mountPropagation: x",
                &[&format!(
                    "{MOUNT}.mountPropagation: Unsupported value: \"x\": supported values: \
                     \"Bidirectional\", \"HostToContainer\", \"None\""
                )],
            ),
            (
                "mounts for the host",
                "name: empty, mountPath: /a, mountPropagation: Bidirectional",
                &[&format!(
                    "{MOUNT}.mountPropagation: Forbidden: Bidirectional mount propagation is \
                     available only to privileged containers"
                )],
            ),
            (
                "read-only to the bottom",
                "name: empty, mountPath: /a, readOnly: true, recursiveReadOnly: Enabled",
                &[],
            ),
            (
                "read-only at the bottom alone",
                "name: empty, mountPath: /a, mountPropagation: HostToContainer, recursiveReadOnly: \
                 IfPossible",
                &[
                    &format!(
                        "{MOUNT}.recursiveReadOnly: Forbidden: may only be specified when readOnly \
                         is true"
                    ),
                    &format!(
                        "{MOUNT}.recursiveReadOnly: Forbidden: may only be specified when \
                         mountPropagation is None or not specified"
                    ),
                ],
            ),
            (
                "an unknown word",
                "name: empty, mountPath: /a, recursiveReadOnly: x",
                &[&format!(
                    "{MOUNT}.recursiveReadOnly: Unsupported value: \"x\": supported values: \
                     \"Disabled\", \"Enabled\", \"IfPossible\""
                )],
            ),
        ],
        mount,
    );
    assert_eq!(
        with_container("volumeMounts: [{name: empty, mountPath: /a}, {name: host, mountPath: /a}]"),
        ["spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique"]
    );
    let privileged = "securityContext: {privileged: true}, volumeMounts: [{name: empty, mountPath: \
                      /a, mountPropagation: Bidirectional}]";
    assert_eq!(with_container(privileged), Vec::<String>::new());
}

#[test]
fn invalid_volume_devices_have_upstream_errors() {
    const DEVICE: &str = "spec.containers[0].volumeDevices[0]";
    check_rows(
        &[
            ("a device", "volumeDevices: [{name: claim, devicePath: /dev/a}]", &[]),
            (
                "nothing",
                "volumeDevices: [{}]",
                &[
                    &format!("{DEVICE}.name: Required value"),
                    &format!("{DEVICE}.devicePath: Required value"),
                ],
            ),
            (
                "no such volume, and a path that climbs",
                "volumeDevices: [{name: x, devicePath: /a/../b}]",
                &[
                    &format!("{DEVICE}.name: Not found: \"x\""),
                    &format!(
                        "{DEVICE}.devicePath: Invalid value: \"/a/../b\": can not contain backsteps \
                         ('..')"
                    ),
                ],
            ),
            (
                "a volume of files",
                "volumeDevices: [{name: empty, devicePath: /dev/a}]",
                &[&format!(
                    "{DEVICE}.name: Invalid value: \"empty\": can only use volume source type of \
                     PersistentVolumeClaim or Ephemeral for block mode"
                )],
            ),
            (
                "a device twice",
                "volumeDevices: [{name: claim, devicePath: /a}, {name: claim, devicePath: /a}]",
                &[
                    "spec.containers[0].volumeDevices[1].name: Invalid value: \"claim\": must be \
                     unique",
                    "spec.containers[0].volumeDevices[1].devicePath: Invalid value: \"/a\": must be \
                     unique",
                ],
            ),
            (
                "a volume as both",
                "volumeDevices: [{name: claim, devicePath: /a}], volumeMounts: [{name: claim, \
                 mountPath: /a}]",
                &[
                    "spec.containers[0].volumeMounts[0].name: Invalid value: \"claim\": must not \
                     already exist in volumeDevices",
                    "spec.containers[0].volumeMounts[0].mountPath: Invalid value: \"/a\": must not \
                     already exist as a path in volumeDevices",
                    &format!(
                        "{DEVICE}.name: Invalid value: \"claim\": must not already exist in \
                         volumeMounts"
                    ),
                    &format!(
                        "{DEVICE}.devicePath: Invalid value: \"/a\": must not already exist as a \
                         path in volumeMounts"
                    ),
                ],
            ),
        ],
        with_container,
    );
}
