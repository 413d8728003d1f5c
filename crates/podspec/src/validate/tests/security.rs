#![allow(clippy::too_many_lines, reason = "a table has one row per rule")]

use super::{METADATA, check_rows, problems_of, with_container, with_spec};

#[test]
fn invalid_pod_security_contexts_have_upstream_errors() {
    const CONTEXT: &str = "spec.securityContext";
    let context = |fields: &str| with_spec(&format!("securityContext: {{{fields}}}"));
    check_rows(
        &[
            (
                "a context",
                "runAsUser: 0, runAsGroup: 2147483647, fsGroup: 1, supplementalGroups: [1, 2], \
                 fsGroupChangePolicy: OnRootMismatch, supplementalGroupsPolicy: Strict, \
                 seLinuxChangePolicy: Recursive, sysctls: [{name: net.core.somaxconn, value: '1'}]",
                &[],
            ),
            (
                "ids out of range",
                "runAsUser: -1, runAsGroup: 2147483648, fsGroup: -1, supplementalGroups: [1, -1]",
                &[
                    &format!("{CONTEXT}.fsGroup: Invalid value: -1: must be between 0 and..."),
                    &format!(
                        "{CONTEXT}.runAsUser: Invalid value: -1: must be between 0 and 2147483647, \
                         inclusive"
                    ),
                    &format!("{CONTEXT}.runAsGroup: Invalid value: 2147483648: must be between..."),
                    &format!("{CONTEXT}.supplementalGroups[1]: Invalid value: -1: must be..."),
                ],
            ),
            (
                "unknown words",
                "fsGroupChangePolicy: a, supplementalGroupsPolicy: b, seLinuxChangePolicy: c",
                &[
                    &format!(
                        "{CONTEXT}.fsGroupChangePolicy: Unsupported value: \"a\": supported values: \
                         \"Always\", \"OnRootMismatch\""
                    ),
                    &format!(
                        "{CONTEXT}.supplementalGroupsPolicy: Unsupported value: \"b\": supported \
                         values: \"Merge\", \"Strict\""
                    ),
                    &format!(
                        "{CONTEXT}.seLinuxChangePolicy: Unsupported value: \"c\": supported values: \
                         \"Recursive\""
                    ),
                ],
            ),
            (
                "bad kernel parameters",
                "sysctls: [{value: '1'}, {name: a..b, value: '1'}, {name: a.b, value: '1'}, {name: \
                 a.b, value: '1'}]",
                &[
                    &format!("{CONTEXT}.sysctls[0].name: Required value"),
                    &format!(
                        "{CONTEXT}.sysctls[1].name: Invalid value: \"a..b\": must have at most 253 \
                         characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]\
                         ([-_a-z0-9]*[a-z0-9])?$"
                    ),
                    &format!("{CONTEXT}.sysctls[3].name: Duplicate value: \"a.b\""),
                ],
            ),
        ],
        context,
    );
}

#[test]
fn host_sysctls_are_rejected_with_host_namespaces() {
    let problems = |host: &str, name: &str| {
        with_spec(&format!("{host}, securityContext: {{sysctls: [{{name: {name}, value: '1'}}]}}"))
    };
    for name in ["net.core.somaxconn", "net/core/somaxconn"] {
        assert_eq!(
            problems("hostNetwork: true", name),
            [format!(
                "spec.securityContext.sysctls[0].name: Invalid value: {name:?}: may not be \
                 specified when 'hostNetwork' is true"
            )]
        );
        assert_eq!(problems("hostIPC: true", name), Vec::<String>::new());
    }
    for name in ["kernel.shmmax", "kernel/sem", "fs.mqueue.msg_max"] {
        assert_eq!(
            problems("hostIPC: true", name),
            [format!(
                "spec.securityContext.sysctls[0].name: Invalid value: {name:?}: may not be \
                 specified when 'hostIPC' is true"
            )]
        );
        assert_eq!(problems("hostNetwork: true", name), Vec::<String>::new());
    }
    assert_eq!(problems("hostIPC: true", "kernel.shmmaxx"), Vec::<String>::new());
}

#[test]
fn invalid_host_namespaces_have_upstream_errors() {
    check_rows(
        &[
            ("all of the host", "hostPID: true, hostIPC: true, hostNetwork: true", &[]),
            ("one for the pod", "shareProcessNamespace: true, hostNetwork: true", &[]),
            (
                "processes of the host and of the pod",
                "shareProcessNamespace: true, hostPID: true",
                &["spec.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and \
                   HostPID cannot both be enabled"],
            ),
            ("users of its own", "hostUsers: false", &[]),
            (
                "users of its own in the namespaces of the host",
                "hostUsers: false, hostPID: true, hostIPC: true, hostNetwork: true",
                &[
                    "spec.hostNetwork: Forbidden: when `hostUsers` is false",
                    "spec.hostPID: Forbidden: when `hostUsers` is false",
                    "spec.hostIPC: Forbidden: when `hostUsers` is false",
                ],
            ),
        ],
        with_spec,
    );
    let spec = "hostUsers: false, volumes: [{name: v, persistentVolumeClaim: {claimName: a}}], \
                containers: [{name: c, image: i, volumeDevices: [{name: v, devicePath: /a}]}]";
    assert_eq!(
        problems_of(METADATA, spec),
        ["spec.containers[0].volumeDevices: Forbidden: when `hostUsers` is false"]
    );
}

#[test]
fn invalid_container_security_contexts_have_upstream_errors() {
    const CONTEXT: &str = "spec.containers[0].securityContext";
    let context = |fields: &str| with_container(&format!("securityContext: {{{fields}}}"));
    check_rows(
        &[
            ("a context", "runAsUser: 1, runAsGroup: 2, procMount: Default, privileged: true", &[]),
            (
                "ids out of range",
                "runAsUser: -1, runAsGroup: -2",
                &[
                    &format!("{CONTEXT}.runAsUser: Invalid value: -1: must be between..."),
                    &format!("{CONTEXT}.runAsGroup: Invalid value: -2: must be between..."),
                ],
            ),
            (
                "an unknown word",
                "procMount: x",
                &[&format!(
                    "{CONTEXT}.procMount: Unsupported value: \"x\": supported values: \"Default\", \
                     \"Unmasked\""
                )],
            ),
            (
                "all of proc with the users of the host",
                "procMount: Unmasked",
                &[&format!(
                    "{CONTEXT}.procMount: Invalid value: \"Unmasked\": `hostUsers` must be false to \
                     use `Unmasked`"
                )],
            ),
            (
                "no more rights than all",
                "allowPrivilegeEscalation: false, privileged: true",
                &[&format!(
                    "{CONTEXT}.allowPrivilegeEscalation: Invalid value: false: cannot set \
                     `allowPrivilegeEscalation` to false and `privileged` to true"
                )],
            ),
            (
                "no more rights than of an administrator",
                "allowPrivilegeEscalation: false, capabilities: {add: [NET_ADMIN, CAP_SYS_ADMIN]}",
                &[&format!(
                    "{CONTEXT}.allowPrivilegeEscalation: Invalid value: false: cannot set \
                     `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
                )],
            ),
        ],
        context,
    );
    let spec = "hostUsers: false, containers: [{name: c, image: i, securityContext: {procMount: \
                Unmasked}}]";
    assert_eq!(problems_of(METADATA, spec), Vec::<String>::new());
}

#[test]
fn invalid_security_profiles_have_upstream_errors() {
    let long = format!("type: Localhost, localhostProfile: {}", "a".repeat(4096));
    for place in ["spec", "spec.containers[0]"] {
        let problems = |field: &str, profile: &str| {
            let context = format!("securityContext: {{{field}: {{{profile}}}}}");
            if place == "spec" { with_spec(&context) } else { with_container(&context) }
        };
        let seccomp = format!("{place}.securityContext.seccompProfile");
        check_rows(
            &[
                ("the runtime's", "type: RuntimeDefault", &[]),
                ("a file", "type: Localhost, localhostProfile: a/b.json", &[]),
                (
                    "no type",
                    "",
                    &[&format!(
                        "{seccomp}.type: Required value: type is required when seccompProfile is set"
                    )],
                ),
                (
                    "an unknown type",
                    "type: x",
                    &[&format!(
                        "{seccomp}.type: Unsupported value: \"x\": supported values: \
                         \"Localhost\", \"RuntimeDefault\", \"Unconfined\""
                    )],
                ),
                (
                    "no file",
                    "type: Localhost",
                    &[&format!(
                        "{seccomp}.localhostProfile: Required value: must be set when seccomp type \
                         is Localhost"
                    )],
                ),
                (
                    "a file elsewhere",
                    "type: Localhost, localhostProfile: /a/../b",
                    &[
                        &format!(
                            "{seccomp}.localhostProfile: Invalid value: \"/a/../b\": must be..."
                        ),
                        &format!(
                            "{seccomp}.localhostProfile: Invalid value: \"/a/../b\": must not..."
                        ),
                    ],
                ),
                (
                    "a file for nothing",
                    "type: Unconfined, localhostProfile: a",
                    &[&format!(
                        "{seccomp}.localhostProfile: Invalid value: \"a\": can only be set when \
                         seccomp type is Localhost"
                    )],
                ),
            ],
            |profile| problems("seccompProfile", profile),
        );
        let app_armor = format!("{place}.securityContext.appArmorProfile");
        check_rows(
            &[
                ("the runtime's", "type: RuntimeDefault", &[]),
                ("a name", "type: Localhost, localhostProfile: a", &[]),
                (
                    "no type",
                    "",
                    &[&format!(
                        "{app_armor}.type: Required value: type is required when appArmorProfile is \
                         set"
                    )],
                ),
                (
                    "an unknown type",
                    "type: x",
                    &[&format!("{app_armor}.type: Unsupported value...")],
                ),
                (
                    "no name",
                    "type: Localhost",
                    &[&format!(
                        "{app_armor}.localhostProfile: Required value: must be set when AppArmor \
                         type is Localhost"
                    )],
                ),
                (
                    "a name with a space",
                    "type: Localhost, localhostProfile: ' a'",
                    &[&format!(
                        "{app_armor}.localhostProfile: Invalid value: \" a\": must not be padded \
                         with whitespace"
                    )],
                ),
                (
                    "a long name",
                    &long,
                    &[&format!(
                        "{app_armor}.localhostProfile: Too long: may not be more than 4095 bytes"
                    )],
                ),
                (
                    "a name for nothing",
                    "type: Unconfined, localhostProfile: a",
                    &[&format!(
                        "{app_armor}.localhostProfile: Invalid value: \"a\": can only be set when \
                         AppArmor type is Localhost"
                    )],
                ),
            ],
            |profile| problems("appArmorProfile", profile),
        );
    }
}
