//! Settings of our own.

use std::fs;

use config::{ConfigError, FerroletConfiguration, GoDuration, load_ferrolet};
use model::chain::Chain;

const HEADER: &str = "apiVersion: ferrolet/v1alpha1\nkind: FerroletConfiguration\n";

fn load(text: &str) -> Result<FerroletConfiguration, ConfigError> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("own.yaml");
    fs::write(&file, text).unwrap();
    load_ferrolet(&file, |_| Vec::new())
}

// behaviour: CFG-81
#[test]
fn missing_fields_have_their_defaults() {
    assert_eq!(load(HEADER).unwrap(), FerroletConfiguration::default());
    let config =
        load(&format!("{HEADER}pleg: {{relistPeriod: 5s}}\nevents: {{perPod: 7}}")).unwrap();
    assert_eq!(config.pleg.relist_period, GoDuration::from_secs(5));
    assert_eq!(config.pleg.parallel_inspections, 16);
    assert_eq!((config.events.per_pod, config.events.in_all), (7, 2000));
}

#[test]
fn encoded_configuration_decodes_to_the_same_values() {
    let text = format!("{HEADER}containerLinksDir: /links\npleg: {{inspectionDeadline: 3s}}");
    let config = load(&text).unwrap();
    assert_eq!(load(&config.to_document().to_string()).unwrap(), config);
}

// behaviour: CFG-80
#[test]
fn every_invalid_field_is_an_error_with_its_path() {
    for (fields, expected) in [
        ("noSuchField: 1", &["noSuchField: no such field"][..]),
        ("pleg: {relistperiod: 1s}", &["pleg.relistperiod: no such field"]),
        ("events: {}\nevents: {}", &["events: written more than once"]),
        ("events: {perPod: few}", &["events.perPod: expected an integer, found a string"]),
        (
            "pleg: {relistPeriod: 1ms, parallelInspections: 0}\nevents: {perPod: 0, inAll: 0}",
            &[
                "pleg.relistPeriod: must be at least 100ms",
                "pleg.parallelInspections: must be from 1 to 1024",
                "events.perPod: must be at least 1",
            ],
        ),
        (
            "gc: {containers: {ageBy: started}}",
            &["gc.containers.ageBy: must be created or finished"],
        ),
        ("gc: {containers: {period: 0s}}", &["gc.containers.period: must be at least 100ms"]),
        ("gc: {containers: {period: -1m}}", &["gc.containers.period: must be at least 100ms"]),
        (
            "gc: {journal: {maxBytes: 1000}}",
            &["gc.journal.maxBytes: must be from 1048576 to 1073741824"],
        ),
        ("logs: {maxBytesPerPod: 1000}", &["logs.maxBytesPerPod: must be 0 or at least 1048576"]),
        ("images: {pullTimeout: 10ms}", &["images.pullTimeout: must be at least 1s"]),
        ("gc: {containers: {age: 1}}", &["gc.containers.age: no such field"]),
        (
            "pleg: {relistThreshold: 1m}\nevents: {perPod: 5000}\ncontainerLinksDir: links",
            &[
                "pleg.relistThreshold: must be longer than a relist period, which is 1m0s",
                "events.inAll: must be at least events.perPod and at most 1000000",
                "containerLinksDir: must be an absolute path",
            ],
        ),
    ] {
        let Err(ConfigError::Invalid { source, .. }) = load(&format!("{HEADER}{fields}\n")) else {
            panic!("accepted: {fields}");
        };
        let found: Vec<String> = source
            .0
            .iter()
            .map(|error| {
                assert!(error.source.as_ref().is_some_and(|source| source.ends_with("/own.yaml")));
                format!("{}: {}", error.field, error.problem)
            })
            .collect();
        assert_eq!(found, expected, "{fields}");
    }
}

#[test]
fn document_of_another_kind_is_refused() {
    let error = load(crate::HEADER).unwrap_err();
    let text = Chain(&error).to_string();
    assert!(text.contains("kind FerroletConfiguration"), "{text}");
}
