#![allow(clippy::too_many_lines, reason = "a table has one row per rule")]

use super::{CONTAINERS, check_rows, problems_of};

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
    or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', \
    regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

#[test]
fn invalid_metadata_fields_have_upstream_errors() {
    let namespace = format!("metadata.namespace: Invalid value: \"N_S\": {LABEL}");
    check_rows(
        &[
            ("a name", "name: p-1.a, namespace: ns", &[]),
            (
                "no name",
                "namespace: ns",
                &["metadata.name: Required value: name or generateName is required"],
            ),
            (
                "a name with underscore",
                "name: a_b, namespace: ns",
                &["metadata.name: Invalid value: \"a_b\": a lowercase RFC 1123 subdomain must..."],
            ),
            ("no namespace", "name: p", &["metadata.namespace: Required value"]),
            ("a namespace with underscore", "name: p, namespace: N_S", &[&namespace]),
            (
                "a namespace with dots",
                "name: p, namespace: a.b",
                &["metadata.namespace: Invalid value: \"a.b\": must not contain dots"],
            ),
            ("a uid", "name: p, namespace: ns, uid: 7f9c-A_1.b", &[]),
            (
                "a uid that climbs",
                "name: p, namespace: ns, uid: ../x",
                &["metadata.uid: Invalid value: \"../x\": must be at most 63..."],
            ),
            (
                "a uid that is hidden",
                "name: p, namespace: ns, uid: .x",
                &["metadata.uid: Invalid value: \".x\": must be at most 63..."],
            ),
            (
                "labels",
                "name: p, namespace: ns, labels: {app: web, example.com/Tier: '', x: a.b_c}",
                &[],
            ),
            (
                "a label with two slashes",
                "name: p, namespace: ns, labels: {a/b/c: x}",
                &["metadata.labels: Invalid value: \"a/b/c\": a valid label key must consist..."],
            ),
            (
                "a label with a bad value",
                "name: p, namespace: ns, labels: {a: '-'}",
                &["metadata.labels: Invalid value: \"-\": a valid label must be an empty..."],
            ),
            ("an annotation in upper case", "name: p, namespace: ns, annotations: {A/B: x}", &[]),
            (
                "an annotation with a space",
                "name: p, namespace: ns, annotations: {a b: x}",
                &["metadata.annotations: Invalid value: \"a b\": name part must consist of..."],
            ),
        ],
        |metadata| problems_of(metadata, CONTAINERS),
    );
}

#[test]
fn annotations_size_is_limited() {
    let metadata =
        format!("name: p, namespace: ns, annotations: {{a: '{}'}}", "x".repeat(256 << 10));
    assert_eq!(
        problems_of(&metadata, CONTAINERS),
        ["metadata.annotations: Too long: may not be more than 262144 bytes"]
    );
}

#[test]
fn app_armor_annotations_name_a_container_and_a_profile() {
    const KEY: &str = "container.apparmor.security.beta.kubernetes.io";
    let problems = |entry: &str| {
        problems_of(&format!("name: p, namespace: ns, annotations: {{{KEY}/{entry}}}"), CONTAINERS)
    };
    for profile in ["runtime/default", "unconfined", "localhost/x", "''"] {
        assert_eq!(problems(&format!("c: {profile}")), Vec::<String>::new(), "{profile}");
    }
    assert_eq!(
        problems("d: unconfined"),
        [format!("metadata.annotations[{KEY}/d]: Invalid value: \"d\": container not found")]
    );
    assert_eq!(
        problems("c: x"),
        [format!(
            "metadata.annotations[{KEY}/c]: Invalid value: \"x\": invalid AppArmor profile name: \
             \"x\""
        )]
    );
}
