#![allow(clippy::too_many_lines, reason = "a table has one row per rule")]

use super::{check_rows, with_spec};

#[test]
fn invalid_spec_fields_have_upstream_errors() {
    check_rows(
        &[
            (
                "an unknown restart policy",
                "restartPolicy: x",
                &["spec.restartPolicy: Unsupported value: \"x\": supported values: \"Always\", \
                   \"OnFailure\", \"Never\""],
            ),
            ("times", "activeDeadlineSeconds: 1, terminationGracePeriodSeconds: 0", &[]),
            (
                "no deadline at all",
                "activeDeadlineSeconds: 0",
                &[
                    "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, \
                   inclusive",
                ],
            ),
            (
                "bad names of objects",
                "serviceAccountName: A, nodeName: B, priorityClassName: C, runtimeClassName: ''",
                &[
                    "spec.serviceAccountName: Invalid value: \"A\": a lowercase RFC 1123...",
                    "spec.nodeName: Invalid value: \"B\": a lowercase RFC 1123 subdomain...",
                    "spec.priorityClassName: Invalid value: \"C\": a lowercase RFC 1123...",
                    "spec.runtimeClassName: Invalid value: \"\": a lowercase RFC 1123...",
                ],
            ),
            ("linux", "os: {name: linux}", &[]),
            ("no system", "os: {}", &["spec.os.name: Required value"]),
            (
                "an unknown system",
                "os: {name: plan9}",
                &[
                    "spec.os: Unsupported value: \"plan9\": supported values: \"linux\", \"windows\"",
                ],
            ),
            (
                "another system's options",
                "os: {name: linux}, securityContext: {windowsOptions: {}}, initContainers: [{name: \
                 i, image: i, securityContext: {windowsOptions: {}}}]",
                &[
                    "spec.securityContext.windowsOptions: Forbidden: windows options cannot be set \
                     for a linux pod",
                    "spec.initContainers[0].securityContext.windowsOptions: Forbidden: windows \
                     options cannot be set for a linux pod",
                ],
            ),
        ],
        with_spec,
    );
}

#[test]
fn negative_grace_period_is_rejected_without_a_default() {
    let pod = k8s_openapi::api::core::v1::Pod {
        spec: Some(k8s_openapi::api::core::v1::PodSpec {
            termination_grace_period_seconds: Some(-1),
            ..Default::default()
        }),
        ..Default::default()
    };
    let found = super::validate(&pod);
    let expected = "spec.terminationGracePeriodSeconds: Invalid value: -1: must be greater than or \
                    equal to 0";
    assert!(found.iter().any(|problem| problem.to_string() == expected), "{found:?}");
}

#[test]
fn invalid_tolerations_have_upstream_errors() {
    const TOLERATION: &str = "spec.tolerations[0]";
    let toleration = |fields: &str| with_spec(&format!("tolerations: [{{{fields}}}]"));
    check_rows(
        &[
            ("everything", "operator: Exists", &[]),
            ("a value", "key: a, value: b, effect: NoSchedule", &[]),
            (
                "for a time",
                "key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 5",
                &[],
            ),
            (
                "no key and a value",
                "value: b",
                &[&format!(
                    "{TOLERATION}.operator: Invalid value: \"\": operator must be Exists when `key` \
                     is empty, which means \"match all values and all keys\""
                )],
            ),
            (
                "a bad key",
                "key: a b, operator: Exists",
                &[&format!("{TOLERATION}.key: Invalid value: \"a b\": name part must consist...")],
            ),
            (
                "for a time, of what has no time",
                "key: a, effect: NoSchedule, tolerationSeconds: 5",
                &[&format!(
                    "{TOLERATION}.effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' \
                     when `tolerationSeconds` is set"
                )],
            ),
            (
                "a value of any value",
                "key: a, operator: Exists, value: b",
                &[&format!(
                    "{TOLERATION}.value: Invalid value: \"b\": value must be empty when `operator` \
                     is 'Exists'"
                )],
            ),
            (
                "a bad value",
                "key: a, value: b c",
                &[&format!("{TOLERATION}.value: Invalid value: \"b c\": a valid label must be...")],
            ),
            (
                "unknown words",
                "key: a, operator: x, effect: z",
                &[
                    &format!(
                        "{TOLERATION}.operator: Unsupported value: \"x\": supported values: \
                         \"Equal\", \"Exists\""
                    ),
                    &format!(
                        "{TOLERATION}.effect: Unsupported value: \"z\": supported values: \
                         \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\""
                    ),
                ],
            ),
        ],
        toleration,
    );
}

#[test]
fn invalid_placement_fields_have_upstream_errors() {
    const TERMS: &str = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.\
        nodeSelectorTerms";
    let affinity = |terms: &str| {
        with_spec(&format!(
            "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: \
             {{nodeSelectorTerms: [{terms}]}}}}}}"
        ))
    };
    check_rows(
        &[
            (
                "terms",
                "{matchExpressions: [{key: a, operator: In, values: [b]}, {key: a, operator: \
                 Exists}, {key: a, operator: Gt, values: ['1']}]}, {matchFields: [{key: \
                 metadata.name, operator: In, values: [node]}]}",
                &[],
            ),
            ("no term", "", &[&format!("{TERMS}: Required value: must have at least one node...")]),
            (
                "bad expressions",
                "{matchExpressions: [{key: a, operator: In}, {key: a, operator: Exists, values: \
                 [b]}, {key: a, operator: Lt}, {key: '', operator: x}, {key: a, operator: NotIn, \
                 values: ['-']}]}",
                &[
                    &format!("{TERMS}[0].matchExpressions[0].values: Required value: must be..."),
                    &format!("{TERMS}[0].matchExpressions[1].values: Forbidden: may not be..."),
                    &format!("{TERMS}[0].matchExpressions[2].values: Required value: must be..."),
                    &format!(
                        "{TERMS}[0].matchExpressions[3].operator: Invalid value: \"x\": not..."
                    ),
                    &format!(
                        "{TERMS}[0].matchExpressions[3].key: Invalid value: \"\": name part..."
                    ),
                    &format!(
                        "{TERMS}[0].matchExpressions[3].key: Invalid value: \"\": name part..."
                    ),
                    &format!(
                        "{TERMS}[0].matchExpressions[4].values[0]: Invalid value: \"-\": a..."
                    ),
                ],
            ),
            (
                "bad fields",
                "{matchFields: [{key: x, operator: Exists}, {key: metadata.name, operator: In, \
                 values: [A, b]}]}",
                &[
                    &format!(
                        "{TERMS}[0].matchFields[0].operator: Invalid value: \"Exists\": not..."
                    ),
                    &format!("{TERMS}[0].matchFields[0].key: Invalid value: \"x\": not a valid..."),
                    &format!("{TERMS}[0].matchFields[1].values: Required value: must be only..."),
                    &format!("{TERMS}[0].matchFields[1].values[0]: Invalid value: \"A\": a..."),
                ],
            ),
        ],
        affinity,
    );
    check_rows(
        &[
            ("a selector", "nodeSelector: {a: b}", &[]),
            (
                "a bad selector",
                "nodeSelector: {a: '-'}",
                &["spec.nodeSelector: Invalid value: \"-\": a valid label must be an empty..."],
            ),
            ("a readiness gate", "readinessGates: [{conditionType: example.com/Ready}]", &[]),
            (
                "a bad readiness gate",
                "readinessGates: [{conditionType: 'a b'}]",
                &[
                    "spec.readinessGates[0].conditionType: Invalid value: \"a b\": name part must...",
                ],
            ),
            (
                "a node for what waits for one",
                "schedulingGates: [{name: a}], nodeName: node",
                &["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been \
                   cleared"],
            ),
        ],
        with_spec,
    );
}
