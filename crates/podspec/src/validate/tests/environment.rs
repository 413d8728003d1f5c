#![allow(clippy::too_many_lines, reason = "a table has one row per rule")]

use super::{check_rows, with_container};

#[test]
fn invalid_environment_variables_have_upstream_errors() {
    const ENV: &str = "spec.containers[0].env[0]";
    check_rows(
        &[
            (
                "variables",
                "env: [{name: A, value: b}, {name: a.b-c}, {name: A, valueFrom: {fieldRef: \
                 {fieldPath: status.podIP}}}, {name: A, valueFrom: {resourceFieldRef: {resource: \
                 limits.memory, divisor: 1Mi}}}, {name: A, valueFrom: {fileKeyRef: {volumeName: \
                 empty, path: a/b, key: K}}}]",
                &[],
            ),
            ("no name", "env: [{value: a}]", &["spec.containers[0].env[0].name: Required value"]),
            (
                "a name with equals sign",
                "env: [{name: A=B}]",
                &["spec.containers[0].env[0].name: Invalid value: \"A=B\": a valid environment \
                   variable name must consist only of printable ASCII characters other than '='"],
            ),
            (
                "no source",
                "env: [{name: A, valueFrom: {}}]",
                &[&format!(
                    "{ENV}.valueFrom: Invalid value: \"\": must specify one of: `fieldRef`..."
                )],
            ),
            (
                "a value and a source",
                "env: [{name: A, value: b, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]",
                &[&format!(
                    "{ENV}.valueFrom: Invalid value: \"\": may not be specified when `value` is \
                     not empty"
                )],
            ),
            (
                "two sources",
                "env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}, \
                 resourceFieldRef: {resource: limits.cpu}}}]",
                &[&format!(
                    "{ENV}.valueFrom: Invalid value: \"\": may not have more than one field \
                     specified at a time"
                )],
            ),
            (
                "a bad reference to a secret",
                "env: [{name: A, valueFrom: {secretKeyRef: {name: s}}}]",
                &[&format!("{ENV}.valueFrom.secretKeyRef.key: Required value")],
            ),
            (
                "a bad key of a config map",
                "env: [{name: A, valueFrom: {configMapKeyRef: {name: s, key: a/b}}}]",
                &[&format!(
                    "{ENV}.valueFrom.configMapKeyRef.key: Invalid value: \"a/b\": a valid config..."
                )],
            ),
            (
                "a file in no volume",
                "env: [{name: A, valueFrom: {fileKeyRef: {volumeName: x, path: a, key: K}}}]",
                &[&format!("{ENV}.valueFrom.fileKeyRef.volumeName: Not found: \"x\"")],
            ),
            (
                "a file in another volume",
                "env: [{name: A, valueFrom: {fileKeyRef: {volumeName: host, path: ../a, key: K}}}]",
                &[
                    &format!(
                        "{ENV}.valueFrom.fileKeyRef.volumeName: Invalid value: \"host\": referenced \
                         volume must be of type emptyDir"
                    ),
                    &format!(
                        "{ENV}.valueFrom.fileKeyRef.path: Invalid value: \"../a\": must not contain \
                         '..'"
                    ),
                ],
            ),
            (
                "sources",
                "envFrom: [{prefix: A_, configMapRef: {name: c}}, {secretRef: {name: s}}]",
                &[],
            ),
            (
                "no source of variables",
                "envFrom: [{}]",
                &["spec.containers[0].envFrom[0]: Invalid value: \"\": must specify one of: \
                   `configMapRef` or `secretRef`"],
            ),
            (
                "two sources of variables",
                "envFrom: [{configMapRef: {name: c}, secretRef: {name: s}}]",
                &[
                    "spec.containers[0].envFrom[0]: Invalid value: \"\": may not have more than one \
                   field specified at a time",
                ],
            ),
            (
                "a source without name, and a bad prefix",
                "envFrom: [{prefix: 'A=', configMapRef: {}}]",
                &[
                    "spec.containers[0].envFrom[0].prefix: Invalid value: \"A=\": a valid...",
                    "spec.containers[0].envFrom[0].configMapRef.name: Required value",
                ],
            ),
        ],
        with_container,
    );
}

#[test]
fn invalid_downward_api_fields_have_upstream_errors() {
    const REF: &str = "spec.containers[0].env[0].valueFrom.fieldRef";
    let field = |fields: &str| {
        with_container(&format!("env: [{{name: A, valueFrom: {{fieldRef: {{{fields}}}}}}}]"))
    };
    check_rows(
        &[
            ("a label", "fieldPath: \"metadata.labels['a/b']\"", &[]),
            ("an annotation in upper case", "fieldPath: \"metadata.annotations['A']\"", &[]),
            ("the old name of the node", "fieldPath: spec.host", &[]),
            (
                "a bad label",
                "fieldPath: \"metadata.labels['a b']\"",
                &[&format!("{REF}: Invalid value: \"a b\": name part must consist of...")],
            ),
            (
                "an entry of what has none",
                "fieldPath: \"spec.nodeName['a']\"",
                &[&format!(
                    "{REF}.fieldPath: Invalid value: \"spec.nodeName['a']\": error converting \
                     fieldPath: field label does not support subscript: spec.nodeName['a']"
                )],
            ),
            (
                "an unknown field",
                "fieldPath: spec.x",
                &[&format!(
                    "{REF}.fieldPath: Invalid value: \"spec.x\": error converting fieldPath: field \
                     label not supported: spec.x"
                )],
            ),
            (
                "a field that a variable cannot show",
                "fieldPath: metadata.labels",
                &[&format!(
                    "{REF}.fieldPath: Unsupported value: \"metadata.labels\": supported..."
                )],
            ),
            (
                "another version",
                "apiVersion: v2, fieldPath: metadata.name",
                &[&format!(
                    "{REF}.fieldPath: Invalid value: \"metadata.name\": error converting \
                     fieldPath: unsupported pod version: v2"
                )],
            ),
        ],
        field,
    );
    assert_eq!(field(""), [format!("{REF}.fieldPath: Required value")]);
}

#[test]
fn invalid_downward_api_resources_have_upstream_errors() {
    const RESOURCE: &str = "spec.containers[0].env[0].valueFrom.resourceFieldRef";
    let resource = |fields: &str| {
        with_container(&format!(
            "env: [{{name: A, valueFrom: {{resourceFieldRef: {{{fields}}}}}}}]"
        ))
    };
    check_rows(
        &[
            ("huge pages", "resource: requests.hugepages-2Mi, divisor: 1Mi", &[]),
            ("thousandths of a processor", "resource: limits.cpu, divisor: 1m", &[]),
            ("no resource", "divisor: 1", &[&format!("{RESOURCE}.resource: Required value")]),
            (
                "an unknown resource",
                "resource: limits.x",
                &[&format!("{RESOURCE}.resource: Unsupported value: \"limits.x\": supported...")],
            ),
            (
                "a divisor of processors",
                "resource: limits.cpu, divisor: 1Ki",
                &[&format!(
                    "{RESOURCE}.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m \
                     and 1 are supported with the cpu resource"
                )],
            ),
            (
                "a divisor of memory",
                "resource: limits.memory, divisor: 1m",
                &[&format!(
                    "{RESOURCE}.divisor: Invalid value: \"limits.memory\": only divisor's values 1, \
                     1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the \
                     memory resource"
                )],
            ),
            (
                "a divisor that is no quantity",
                "resource: limits.cpu, divisor: x",
                &[&format!("{RESOURCE}.divisor: Invalid value: \"x\": quantities must be...")],
            ),
        ],
        resource,
    );
}
