//! One row per rule: the violation, and the expected problems. Every row is a whole pod, and the
//! listed problems are all that it has.

mod containers;
mod environment;
mod handlers;
mod metadata;
mod mounts;
mod network;
mod resources;
mod scheduling;
mod security;
mod volumes;

use super::validate;
use crate::{decode, set_defaults};

/// The rule, the violation, and the expected problems.
type Row<'a> = (&'a str, &'a str, &'a [&'a str]);

/// All problems of a pod, given its metadata and specification.
fn problems_of(metadata: &str, spec: &str) -> Vec<String> {
    let manifest =
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{{metadata}}}\nspec: {{{spec}}}\n");
    let mut decoded = decode(manifest.as_bytes()).expect(&manifest);
    assert_eq!(decoded.warnings, [], "{manifest}");
    let mut pod = decoded.pods.remove(0);
    set_defaults(&mut pod);
    validate(&pod).iter().map(ToString::to_string).collect()
}

/// Checks rows against pods made from their second column. Of an expected problem that ends
/// with dots, only the beginning is compared.
fn check_rows(rows: &[Row<'_>], problems: impl Fn(&str) -> Vec<String>) {
    for (rule, fields, expected) in rows {
        let found = problems(fields);
        let is_same = found.len() == expected.len()
            && found.iter().zip(*expected).all(|(found, expected)| {
                match expected.strip_suffix("...") {
                    Some(start) => found.starts_with(start),
                    None => found == expected,
                }
            });
        assert!(is_same, "{rule}: found {found:#?}, expected {expected:#?}");
    }
}

const METADATA: &str = "name: p, namespace: ns";
const CONTAINERS: &str = "containers: [{name: c, image: 'i:1'}]";

/// A pod with more fields in its specification.
fn with_spec(fields: &str) -> Vec<String> {
    problems_of(METADATA, &format!("{CONTAINERS}, {fields}"))
}

/// A pod with more fields in its container, and some volumes for it to use.
fn with_container(fields: &str) -> Vec<String> {
    let volumes = "volumes: [{name: empty}, {name: host, hostPath: {path: /a}}, {name: claim, \
                   persistentVolumeClaim: {claimName: a}}]";
    problems_of(METADATA, &format!("containers: [{{name: c, image: 'i:1', {fields}}}], {volumes}"))
}

/// A pod with one volume.
fn with_volume(source: &str) -> Vec<String> {
    with_spec(&format!("volumes: [{{name: v, {source}}}]"))
}

#[test]
fn plain_pod_is_valid() {
    assert_eq!(problems_of(METADATA, CONTAINERS), Vec::<String>::new());
}

#[test]
fn empty_pod_lacks_all_required_fields() {
    let found = validate(&k8s_openapi::api::core::v1::Pod::default());
    let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "metadata.name: Required value: name or generateName is required",
            "metadata.namespace: Required value",
            "spec: Required value",
        ]
    );
}
