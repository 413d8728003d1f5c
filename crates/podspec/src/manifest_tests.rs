use proptest::prelude::*;

use super::{ManifestError, Origin, decode, read_manifest, set_defaults, validate};
use crate::pod_strategy::{arbitrary_manifest, arbitrary_pod};

fn file() -> Origin {
    Origin::File("/etc/pods/a.yaml".into())
}

fn url() -> Origin {
    Origin::Url("http://example/pods".to_owned())
}

const GOOD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - \
                    {name: c, image: 'i:1'}\n";

#[test]
fn valid_manifest_is_ready_to_run() {
    let manifest = read_manifest(GOOD.as_bytes(), &file(), "node").unwrap();
    assert_eq!((manifest.pods.len(), manifest.warnings.len()), (1, 0));
    let pod = &manifest.pods[0];
    assert_eq!(pod.metadata.name.as_deref(), Some("web-node"));
    assert_eq!(pod.spec.as_ref().unwrap().restart_policy.as_deref(), Some("Always"));
}

#[test]
fn warnings_do_not_stop_a_pod() {
    let text = format!("{GOOD}  foo: bar\n---\nmore: 1\n");
    let manifest = read_manifest(text.as_bytes(), &file(), "node").unwrap();
    let warnings: Vec<String> = manifest.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "line 9: only the first document of a manifest is read",
            "spec.foo: unknown field, ignored",
        ]
    );
}

#[test]
fn all_problems_are_reported_together() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: A}\nspec:\n  serviceAccountName: s\n  \
                restartPolicy: Sometimes\n  containers:\n  - {name: B}\n";
    let error = read_manifest(text.as_bytes(), &file(), "node").unwrap_err();
    let ManifestError::Invalid(problems) = &error else { panic!("{error}") };
    let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "spec.serviceAccountName",
            "metadata.name",
            "spec.containers[0].name",
            "spec.containers[0].image",
            "spec.restartPolicy",
        ]
    );
    let text = error.to_string();
    assert!(
        text.starts_with(
            "invalid pod: spec.serviceAccountName: Forbidden: static pods may not reference \
             serviceaccounts; metadata.name: Invalid value: \"A-node\": "
        ),
        "{text}"
    );
}

#[test]
fn node_name_that_makes_the_pod_name_invalid_is_rejected() {
    let error = read_manifest(GOOD.as_bytes(), &file(), "no_de").unwrap_err().to_string();
    assert!(error.contains("metadata.name: Invalid value: \"web-no_de\""), "{error}");
    assert!(error.contains("spec.nodeName: Invalid value: \"no_de\""), "{error}");
}

// behaviour: SRC-63
#[test]
fn list_is_accepted_from_a_url_only() {
    let text = "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n  spec: {containers: \
                [{name: c, image: i}]}\n- metadata: {name: b}\n  spec: {containers: [{name: c}]}\n";
    let error = read_manifest(text.as_bytes(), &url(), "n").unwrap_err();
    assert_eq!(error.to_string(), "invalid pod: items[1].spec.containers[0].image: Required value");
    let good = text.replace("{name: c}", "{name: c, image: j}");
    let pods = read_manifest(good.as_bytes(), &url(), "n").unwrap().pods;
    let names: Vec<_> = pods.iter().map(|pod| pod.metadata.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["a-n", "b-n"]);
    assert!(matches!(read_manifest(good.as_bytes(), &file(), "n"), Err(ManifestError::Decode(_))));
}

proptest! {
    #[test]
    fn any_manifest_is_ready_or_rejected_with_problems(manifest in arbitrary_manifest()) {
        match read_manifest(manifest.as_bytes(), &file(), "node") {
            Ok(ready) => {
                // A valid pod stays valid: defaults are set, and the rules hold.
                let mut pod = ready.pods[0].clone();
                set_defaults(&mut pod);
                prop_assert_eq!(&pod, &ready.pods[0]);
                prop_assert_eq!(validate(&pod), vec![]);
            }
            Err(ManifestError::Invalid(problems)) => {
                prop_assert!(problems.iter().count() > 0);
                for problem in problems.iter() {
                    prop_assert!(!problem.path.as_str().is_empty());
                }
            }
            Err(ManifestError::Decode(error)) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn pod_round_trips_through_json(pod in arbitrary_pod()) {
        let text = serde_json::to_string(&pod).unwrap();
        let decoded = decode(text.as_bytes()).unwrap();
        prop_assert_eq!(&decoded.pods[0], &pod);
        prop_assert_eq!(decoded.warnings, vec![]);
        // The same as YAML: every JSON text is YAML.
        let yaml = format!("# YAML\n{text}");
        prop_assert_eq!(&decode(yaml.as_bytes()).unwrap().pods[0], &pod);
    }

    #[test]
    fn validation_accepts_any_pod_without_panic(pod in arbitrary_pod()) {
        let problems = validate(&pod);
        prop_assert!(problems.iter().all(|problem| !problem.to_string().is_empty()));
    }
}
