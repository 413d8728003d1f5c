use proptest::prelude::*;
use serde_json::json;

use super::{DecodeError, MAX_MANIFEST_BYTES, decode, decode_list};

fn as_json(manifest: &str) -> serde_json::Value {
    let mut decoded = decode(manifest.as_bytes()).unwrap();
    serde_json::to_value(decoded.pods.remove(0)).unwrap()
}

fn error(manifest: &str) -> String {
    decode(manifest.as_bytes()).unwrap_err().to_string()
}

fn warnings(manifest: &str) -> Vec<String> {
    let decoded = decode(manifest.as_bytes()).unwrap();
    decoded.warnings.iter().map(ToString::to_string).collect()
}

/// A pod with the grace period in this notation.
fn with_grace_period(text: &str) -> String {
    format!("apiVersion: v1\nkind: Pod\nspec:\n  terminationGracePeriodSeconds: {text}\n")
}

// behaviour: SRC-63
#[test]
fn yaml_and_json_decode_to_the_same_pod() {
    let yaml =
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n  - name: b\n";
    let json = r#" {"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"b"}]}}"#;
    assert_eq!(as_json(yaml), as_json(json));
    assert_eq!(as_json(&format!("\u{feff}{yaml}")), as_json(json));
    assert_eq!(as_json(&format!("\u{feff}{json}")), as_json(json));
}

#[test]
fn numbers_are_decoded_as_yaml_1_1() {
    let cases = [
        ("30", 30),
        ("0644", 420),
        ("0o644", 420),
        ("0x1F", 31),
        ("0b11", 3),
        ("1_000", 1000),
        ("1e3", 1000),
        ("30.0", 30),
        ("089", 89),
        ("+5", 5),
        ("-5", -5),
    ];
    for (text, expected) in cases {
        let pod = as_json(&with_grace_period(text));
        assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], json!(expected), "{text}");
    }
}

#[test]
fn booleans_are_decoded_as_yaml_1_1() {
    let host_network = |text: &str| {
        as_json(&format!("apiVersion: v1\nkind: Pod\nspec:\n  hostNetwork: {text}\n"))["spec"]
            ["hostNetwork"]
            .clone()
    };
    for text in ["yes", "Yes", "on", "y", "true", "True", "TRUE"] {
        assert_eq!(host_network(text), json!(true), "{text}");
    }
    for text in ["no", "off", "N", "false"] {
        assert_eq!(host_network(text), json!(false), "{text}");
    }
    for text in ["~", "null", ""] {
        assert_eq!(host_network(text), json!(null), "{text}");
    }
    let labels = |text: &str| {
        as_json(&format!("apiVersion: v1\nkind: Pod\nmetadata: {{labels: {{a: {text}}}}}\n"))
            ["metadata"]["labels"]["a"]
            .clone()
    };
    for text in ["2001-01-01", "1:30", "1.2.3", "NaN", "infinity", "=", "1Gi"] {
        assert_eq!(labels(text), json!(text), "{text}");
    }
}

#[test]
fn merge_keys_and_aliases_work() {
    let manifest = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - &base\n    name: a\n    \
                    image: i\n  - <<: *base\n    name: b\n";
    let containers = as_json(manifest)["spec"]["containers"].clone();
    assert_eq!(containers, json!([{"image": "i", "name": "a"}, {"image": "i", "name": "b"}]));
}

#[test]
fn entries_without_value_are_empty() {
    let manifest = "apiVersion: v1\nkind: Pod\nmetadata:\n  labels:\n    a:\n  annotations:\n    \
                    b: ~\nspec:\n  nodeSelector: {c: }\n  overhead: {cpu: }\n";
    let pod = as_json(manifest);
    assert_eq!(pod["metadata"], json!({"labels": {"a": ""}, "annotations": {"b": ""}}));
    assert_eq!(pod["spec"]["nodeSelector"], json!({"c": ""}));
    assert_eq!(pod["spec"]["overhead"], json!({"cpu": "0"}));
}

#[test]
fn quantities_may_be_numbers() {
    let manifest = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - resources:\n      \
                    limits: {cpu: 2, memory: 0.5}\n";
    let limits = as_json(manifest)["spec"]["containers"][0]["resources"]["limits"].clone();
    assert_eq!(limits, json!({"cpu": "2", "memory": "0.5"}));
}

#[test]
fn syntax_errors_are_reported_with_line_and_column() {
    let cases = [
        ("a tab", "a:\n\t- b", "line 2, column 2: YAML: tabs disallowed"),
        ("two colons", "a: b: c", "line 1, column 5: YAML: mapping values are not allowed"),
        ("a key twice", "a: 1\nb: 2\na: 3\n", "line 3, column 1: YAML: duplicate mapping key: a"),
        ("an open quote", "a: \"b\nc: d", "line 2, column 1: YAML: "),
        ("an unknown alias", "a: *b", "line 1, column 4: YAML: "),
        ("a list as key", "? [a]\n: b\n", "YAML: key of a map must be a plain value"),
        ("an infinite number", "a: 12e4567", "value `12e4567` is not a finite number"),
        ("JSON: a wrong word", "{\"a\":\n tru}", "line 2, column 5: JSON: expected ident"),
        ("JSON: no key", "{", "JSON: EOF while parsing an object"),
        ("JSON: a key twice", "{\"a\":1,\n\"a\":2}", "line 2, column 3: JSON: duplicate key \"a\""),
        ("JSON: more than one value", "{}\n{}", "line 2, column 1: JSON: trailing characters"),
        ("JSON: too large a number", "{\"a\": 1e999}", "JSON: number out of range"),
    ];
    for (what, manifest, expected) in cases {
        let text = error(manifest);
        assert!(text.contains(expected), "{what}: {text}");
    }
}

#[test]
fn quoted_manifest_text_is_escaped() {
    let text = error("a: 1\n\"x\\e[31m\": 2\n\"x\\e[31m\": 3\n");
    assert!(text.contains("duplicate"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn non_utf8_bytes_are_reported_with_their_line() {
    assert_eq!(decode(b"a: b\nc: \xff\n").unwrap_err(), DecodeError::NotText { line: 2 });
}

#[test]
fn empty_manifest_is_rejected() {
    for manifest in ["", "\n\n", "# only a comment\n", "---\n", "null", "---\n---\nkind: Pod\n"] {
        assert_eq!(decode(manifest.as_bytes()).unwrap_err(), DecodeError::Empty, "{manifest:?}");
    }
}

#[test]
fn another_object_is_named() {
    let cases = [
        ("apiVersion: apps/v1\nkind: Deployment", "expected v1 Pod, found apps/v1 Deployment"),
        ("apiVersion: v1\nkind: PodList", "expected v1 Pod, found v1 PodList"),
        ("apiVersion: v2\nkind: Pod", "expected v1 Pod, found v2 Pod"),
        ("kind: Pod", "expected v1 Pod, found kind Pod and no apiVersion"),
        ("apiVersion: v1", "expected v1 Pod, found apiVersion v1 and no kind"),
        ("metadata: {}", "expected v1 Pod, found neither apiVersion nor kind"),
        ("- a", "expected v1 Pod, found a list"),
        ("hello", "expected v1 Pod, found a text"),
        ("5", "expected v1 Pod, found a plain value"),
    ];
    for (manifest, expected) in cases {
        assert_eq!(error(manifest), expected, "{manifest}");
    }
}

#[test]
fn wrong_types_are_reported_with_the_field_path() {
    let cases = [
        (
            "spec: {containers: [{name: a, ports: [{containerPort: http}]}]}",
            r#"spec.containers[0].ports[0].containerPort: invalid type: string "http", expected i32"#,
        ),
        (
            "spec: {containers: [{ports: [{containerPort: 99999999999}]}]}",
            "spec.containers[0].ports[0].containerPort: invalid value: integer `99999999999`, \
             expected i32",
        ),
        ("spec: {containers: {}}", "spec.containers: invalid type: map, expected a sequence"),
        (
            "spec: {containers: [x]}",
            r#"spec.containers[0]: invalid type: string "x", expected Container"#,
        ),
        ("spec: {containers: [~]}", "spec.containers[0]: invalid type: null, expected Container"),
        (
            "metadata: {labels: {a: 1}}",
            "metadata.labels.a: invalid type: integer `1`, expected a string",
        ),
        (
            "spec: {containers: [{env: [{name: A, value: 1}]}]}",
            "spec.containers[0].env[0].value: invalid type: integer `1`, expected a string",
        ),
        (
            "spec: {terminationGracePeriodSeconds: 1.5}",
            "spec.terminationGracePeriodSeconds: invalid type: floating point `1.5`, expected i64",
        ),
    ];
    for (fragment, expected) in cases {
        assert_eq!(error(&format!("apiVersion: v1\nkind: Pod\n{fragment}\n")), expected);
    }
}

#[test]
fn unknown_fields_are_warnings_with_their_path() {
    let manifest = "apiVersion: v1\nkind: Pod\nfoo: 1\nspec:\n  hostnetwork: true\n  containers:\n  \
                    - name: a\n    imge: b\n    ports: [{containerPort: 1, hostPrt: 2}]\n";
    let expected = [
        "foo: unknown field, ignored",
        "spec.containers[0].imge: unknown field, ignored",
        "spec.containers[0].ports[0].hostPrt: unknown field, ignored",
        "spec.hostnetwork: unknown field, ignored",
    ];
    let mut found = warnings(manifest);
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn further_documents_yield_a_warning() {
    let first = "apiVersion: v1\nkind: Pod\n";
    let expected = ["line 4: only the first document of a manifest is read"];
    assert_eq!(warnings(&format!("{first}---\napiVersion: v1\nkind: Pod\n")), expected);
    for end in ["---\n", "---\n# the end\n---\n", "...\n", "---"] {
        assert_eq!(warnings(&format!("---\n{first}{end}")), Vec::<String>::new(), "{end:?}");
    }
}

// behaviour: SRC-63
#[test]
fn url_may_serve_a_list() {
    let list = "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n- apiVersion: v1\n  \
                kind: Pod\n  metadata: {name: b, foo: c}\n";
    let decoded = decode_list(list.as_bytes()).unwrap();
    let names: Vec<_> = decoded.pods.iter().map(|pod| pod.metadata.name.as_deref()).collect();
    assert_eq!(names, [Some("a"), Some("b")]);
    assert_eq!(decoded.warnings[0].to_string(), "items[1].metadata.foo: unknown field, ignored");

    let one = decode_list(b"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n").unwrap();
    assert_eq!((one.pods.len(), one.is_list), (1, false));
    for empty in ["", "items:\n", "items: []\n"] {
        let list = format!("apiVersion: v1\nkind: PodList\n{empty}");
        assert_eq!(decode_list(list.as_bytes()).unwrap().pods, []);
    }
    let cases = [
        ("kind: List\napiVersion: v1\n", "expected v1 Pod or v1 PodList, found v1 List"),
        ("kind: PodList\napiVersion: v1\nitems: 5\n", "items: expected a list of pods"),
        (
            "kind: PodList\napiVersion: v1\nitems: [{spec: {containers: [{name: 5}]}}]\n",
            "items[0].spec.containers[0].name: invalid type: integer `5`, expected a string",
        ),
    ];
    for (manifest, expected) in cases {
        assert_eq!(decode_list(manifest.as_bytes()).unwrap_err().to_string(), expected);
    }
}

#[test]
fn oversized_manifest_is_rejected() {
    let fits = format!("apiVersion: v1\nkind: Pod\n#{}", "x".repeat(MAX_MANIFEST_BYTES - 26));
    assert_eq!(fits.len(), MAX_MANIFEST_BYTES);
    assert!(decode(fits.as_bytes()).is_ok());
    assert_eq!(decode(format!("{fits}x").as_bytes()).unwrap_err(), DecodeError::TooLong);
}

proptest! {
    #[test]
    fn any_text_is_decoded_or_rejected(text in "\\PC{0,200}") {
        let _ignored = decode(text.as_bytes()).is_ok();
        let _ignored = decode_list(text.as_bytes()).is_ok();
    }

    #[test]
    fn any_bytes_are_decoded_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ignored = decode(&bytes).is_ok();
    }

    #[test]
    fn any_yaml_like_text_is_decoded_or_rejected(
        text in "([ ]{0,4}(- |\\? |&a |\\*a |!!int |<<: )?[a-z0-9'\"{}\\[\\],:#|>]{0,8}(: |:\n|\n|, )){0,20}"
    ) {
        let manifest = format!("apiVersion: v1\nkind: Pod\n{text}");
        let _ignored = decode(manifest.as_bytes()).is_ok();
    }
}
