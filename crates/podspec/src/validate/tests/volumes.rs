#![allow(clippy::too_many_lines, reason = "a table has one row per rule")]

use super::{check_rows, with_spec, with_volume};

// behaviour: VOL-60
#[test]
fn invalid_volumes_have_upstream_errors() {
    check_rows(
        &[
            ("volumes", "volumes: [{name: a}, {name: b, emptyDir: {medium: Memory}}]", &[]),
            ("no name", "volumes: [{emptyDir: {}}]", &["spec.volumes[0].name: Required value"]),
            (
                "a name that is no label",
                "volumes: [{name: a.b}]",
                &["spec.volumes[0].name: Invalid value: \"a.b\": must not contain dots"],
            ),
            (
                "a name twice",
                "volumes: [{name: a}, {name: a}]",
                &["spec.volumes[1].name: Duplicate value: \"a\""],
            ),
            (
                "two sources",
                "volumes: [{name: a, emptyDir: {}, hostPath: {path: /}, nfs: {}}]",
                &[
                    "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
                    "spec.volumes[0].nfs: Forbidden: may not specify more than 1 volume type",
                ],
            ),
        ],
        with_spec,
    );
}

// behaviour: VOL-60
#[test]
fn invalid_volume_sources_have_upstream_errors() {
    check_rows(
        &[
            (
                "a negative size",
                "emptyDir: {sizeLimit: '-1'}",
                &[
                    "spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid \
                   resource quantity",
                ],
            ),
            ("a path", "hostPath: {path: /a, type: DirectoryOrCreate}", &[]),
            ("no path", "hostPath: {}", &["spec.volumes[0].hostPath.path: Required value"]),
            (
                "a path that climbs",
                "hostPath: {path: /a/../b}",
                &[
                    "spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
                ],
            ),
            (
                "an unknown type",
                "hostPath: {path: /a, type: x}",
                &[
                    "spec.volumes[0].hostPath.type: Unsupported value: \"x\": supported values: \"\", \
                   \"BlockDevice\", \"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \
                   \"File\", \"FileOrCreate\", \"Socket\"",
                ],
            ),
            ("an image", "image: {reference: a}", &[]),
            (
                "an image without reference",
                "image: {pullPolicy: x}",
                &[
                    "spec.volumes[0].image.reference: Required value",
                    "spec.volumes[0].image.pullPolicy: Unsupported value: \"x\": supported...",
                ],
            ),
            ("a share", "nfs: {server: a, path: /b}", &[]),
            (
                "a share without place",
                "nfs: {path: b}",
                &[
                    "spec.volumes[0].nfs.server: Required value",
                    "spec.volumes[0].nfs.path: Invalid value: \"b\": must be an absolute path",
                ],
            ),
            ("a claim", "persistentVolumeClaim: {claimName: a}", &[]),
            (
                "a claim without name",
                "persistentVolumeClaim: {}",
                &["spec.volumes[0].persistentVolumeClaim.claimName: Required value"],
            ),
            (
                "a new claim without template",
                "ephemeral: {}",
                &["spec.volumes[0].ephemeral.volumeClaimTemplate: Required value"],
            ),
            ("a driver", "csi: {driver: Example.com, nodePublishSecretRef: {name: a}}", &[]),
            ("no driver", "csi: {}", &["spec.volumes[0].csi.driver: Required value"]),
            (
                "a driver with bad names",
                "csi: {driver: a_b, nodePublishSecretRef: {}}",
                &[
                    "spec.volumes[0].csi.driver: Invalid value: \"a_b\": a lowercase RFC 1123...",
                    "spec.volumes[0].csi.nodePublishSecretRef.name: Required value",
                ],
            ),
        ],
        with_volume,
    );
}

#[test]
fn invalid_block_storage_volumes_have_upstream_errors() {
    check_rows(
        &[
            ("a target", "iscsi: {targetPortal: a, iqn: 'iqn.2001-04.com.example:x', lun: 0}", &[]),
            ("an eui", "iscsi: {targetPortal: a, iqn: eui.0123456789abcdef, lun: 255}", &[]),
            (
                "no target",
                "iscsi: {lun: 256, chapAuthSession: true}",
                &[
                    "spec.volumes[0].iscsi.targetPortal: Required value",
                    "spec.volumes[0].iscsi.iqn: Required value",
                    "spec.volumes[0].iscsi.lun: Invalid value: 256: must be between 0 and 255, \
                     inclusive",
                    "spec.volumes[0].iscsi.secretRef: Required value",
                ],
            ),
            (
                "bad names",
                "iscsi: {targetPortal: a, iqn: x, initiatorName: naa.1, lun: 0}",
                &[
                    "spec.volumes[0].iscsi.iqn: Invalid value: \"x\": must be valid format starting \
                     with iqn, eui, or naa",
                    "spec.volumes[0].iscsi.initiatorName: Invalid value: \"naa.1\": must be valid \
                     format",
                ],
            ),
            ("fibre channel by name", "fc: {targetWWNs: [a], lun: 0}", &[]),
            ("fibre channel by id", "fc: {wwids: [a]}", &[]),
            (
                "fibre channel to nothing",
                "fc: {}",
                &[
                    "spec.volumes[0].fc.targetWWNs: Required value: must specify either targetWWNs or \
                   wwids, but not both",
                ],
            ),
            (
                "fibre channel by both",
                "fc: {targetWWNs: [a], wwids: [b]}",
                &[
                    "spec.volumes[0].fc.targetWWNs: Invalid value: [\"a\"]: targetWWNs and wwids \
                     can not be specified simultaneously",
                    "spec.volumes[0].fc.lun: Required value: lun is required if targetWWNs is \
                     specified",
                ],
            ),
        ],
        with_volume,
    );
}

#[test]
fn invalid_volumes_with_written_content_have_upstream_errors() {
    const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
    check_rows(
        &[
            ("a secret", "secret: {secretName: a, items: [{key: k, path: a/b, mode: 0400}]}", &[]),
            ("no secret", "secret: {}", &["spec.volumes[0].secret.secretName: Required value"]),
            ("no config map", "configMap: {}", &["spec.volumes[0].configMap.name: Required value"]),
            (
                "modes out of range",
                "configMap: {name: a, defaultMode: 01000, items: [{key: k, path: a, mode: -1}]}",
                &[
                    &format!("spec.volumes[0].configMap.defaultMode: Invalid value: 512: {MODE}"),
                    &format!("spec.volumes[0].configMap.items[0].mode: Invalid value: -1: {MODE}"),
                ],
            ),
            (
                "an item without key and path",
                "secret: {secretName: a, items: [{}]}",
                &[
                    "spec.volumes[0].secret.items[0].key: Required value",
                    "spec.volumes[0].secret.items[0].path: Required value",
                ],
            ),
            (
                "paths that leave the volume or are reserved",
                "secret: {secretName: a, items: [{key: k, path: /a}, {key: k, path: a/../b}, {key: \
                 k, path: ..a}]}",
                &[
                    "spec.volumes[0].secret.items[0].path: Invalid value: \"/a\": must be a \
                     relative path",
                    "spec.volumes[0].secret.items[1].path: Invalid value: \"a/../b\": must not \
                     contain '..'",
                    "spec.volumes[0].secret.items[2].path: Invalid value: \"..a\": must not start \
                     with '..'",
                ],
            ),
            (
                "fields of the pod",
                "downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.labels}}, {path: b, \
                 resourceFieldRef: {containerName: c, resource: limits.cpu}}]}",
                &[],
            ),
            (
                "fields that a file cannot show",
                "downwardAPI: {items: [{path: a, fieldRef: {fieldPath: status.podIP}}, {path: b}, \
                 {path: c, resourceFieldRef: {resource: limits.cpu}}]}",
                &[
                    "spec.volumes[0].downwardAPI.items[0].fieldRef.fieldPath: Unsupported value: \
                     \"status.podIP\": supported values: \"metadata.annotations\", \
                     \"metadata.labels\", \"metadata.name\", \"metadata.namespace\", \
                     \"metadata.uid\"",
                    "spec.volumes[0].downwardAPI.items[1]: Required value: one of fieldRef and \
                     resourceFieldRef is required",
                    "spec.volumes[0].downwardAPI.items[2].resourceFieldRef.containerName: Required \
                     value",
                ],
            ),
            (
                "two fields in one file",
                "downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.uid}, \
                 resourceFieldRef: {}}]}",
                &[
                    "spec.volumes[0].downwardAPI.items[0]: Invalid value: \"resource\": fieldRef and \
                   resourceFieldRef can not be specified simultaneously",
                ],
            ),
        ],
        with_volume,
    );
}

#[test]
fn invalid_projected_volumes_have_upstream_errors() {
    const SOURCES: &str = "spec.volumes[0].projected.sources";
    let projected = |sources: &str| with_volume(&format!("projected: {{sources: [{sources}]}}"));
    check_rows(
        &[
            (
                "sources",
                "{secret: {name: a, items: [{key: k, path: a}]}}, {configMap: {name: a}}, \
                 {downwardAPI: {items: [{path: b, fieldRef: {fieldPath: metadata.uid}}]}}",
                &[],
            ),
            (
                "two sources in one",
                "{secret: {name: a}, configMap: {}}",
                &[
                    &format!("{SOURCES}[0].configMap.name: Required value"),
                    &format!(
                        "{SOURCES}[0]: Forbidden: may not specify more than 1 volume type per source"
                    ),
                ],
            ),
            (
                "a path twice",
                "{secret: {name: a, items: [{key: k, path: x}]}}, {configMap: {name: a, items: \
                 [{key: k, path: x}]}}",
                &[&format!("{SOURCES}[1]: Invalid value: \"x\": conflicting duplicate paths")],
            ),
            (
                "a token without service account",
                "{serviceAccountToken: {path: t}}",
                &[&format!(
                    "{SOURCES}[0].serviceAccountToken: Forbidden: must not be specified when \
                     serviceAccountName is not set"
                )],
            ),
        ],
        projected,
    );
    let token = |token: &str| {
        with_spec(&format!(
            "serviceAccountName: a, volumes: [{{name: v, projected: {{sources: \
             [{{serviceAccountToken: {{{token}}}}}]}}}}]"
        ))
    };
    check_rows(
        &[
            ("a token", "path: t", &[]),
            (
                "a token for a minute",
                "path: t, expirationSeconds: 60",
                &[&format!(
                    "{SOURCES}[0].serviceAccountToken.expirationSeconds: Invalid value: 60: may not \
                     specify a duration less than 10 minutes"
                )],
            ),
            (
                "a token for ever, nowhere",
                "expirationSeconds: 4294967297",
                &[
                    &format!(
                        "{SOURCES}[0].serviceAccountToken.expirationSeconds: Invalid value: \
                         4294967297: may not specify a duration larger than 2^32 seconds"
                    ),
                    &format!("{SOURCES}[0].serviceAccountToken.path: Required value"),
                ],
            ),
        ],
        token,
    );
}
