//! A directory of drop-in files.

use std::os::unix::fs::symlink;
use std::path::Path;

use config::flags::FlagSet;
use config::{ConfigError, EvictionSignal, GoDuration, Loaded, load_sources};
use model::chain::Chain;

use crate::{HEADER, Node};

fn load_with_drop_ins(node: &Node) -> Result<Loaded, ConfigError> {
    load_sources(Some(&node.file()), Some(&node.path().join("conf.d")), &FlagSet::default())
}

/// A node with a main file and one drop-in, both given by their fields.
fn node(main: &str, drop_in: &str) -> Node {
    let node = Node::with_fields(main);
    node.add("conf.d/10.conf", &format!("{HEADER}{drop_in}\n"));
    node
}

// behaviour: CFG-1, CFG-23
#[test]
fn drop_in_is_applied_as_a_json_merge_patch() {
    let node = node(
        "maxPods: 50\nclusterDNS: [10.0.0.1, 10.0.0.2]\nkubeReserved: {cpu: 1m, memory: 1Gi}\n\
         evictionHard: {memory.available: 1Gi}\nsyncFrequency: 3m\n\
         authentication: {webhook: {cacheTTL: 7s}, x509: {clientCAFile: /ca}}",
        "maxPods: 60\nclusterDNS: [10.0.0.3]\nkubeReserved: {memory: 2Gi}\n\
         evictionHard: {pid.available: 5%, memory.available: null}\nsyncFrequency: null\n\
         authentication: {webhook: {enabled: false}}",
    );
    let config = load_with_drop_ins(&node).unwrap().config;
    assert_eq!(config.max_pods, 60);
    assert_eq!(config.cluster_dns, ["10.0.0.3"]);
    let reserved: Vec<&str> =
        config.kube_reserved.values().map(config::AsWritten::as_str).collect();
    assert_eq!(reserved, ["1m", "2Gi"]);
    assert_eq!(
        config.eviction_hard.into_keys().collect::<Vec<_>>(),
        [EvictionSignal::PidAvailable]
    );
    assert_eq!(config.sync_frequency, GoDuration::from_secs(60));
    assert!(!config.authentication.webhook.enabled);
    assert_eq!(config.authentication.webhook.cache_ttl, GoDuration::from_secs(7));
    assert_eq!(config.authentication.x509.client_ca_file, "/ca");
}

// behaviour: CFG-20, CFG-22
#[test]
fn drop_ins_are_merged_in_lexical_walk_order() {
    let node = Node::with_fields("");
    for (name, pods) in [
        ("conf.d/20.conf", 20),
        ("conf.d/10/99.conf", 1099),
        ("conf.d/10/.conf", 10),
        ("conf.d/15.conf", 15),
        ("conf.d/05.conf", 5),
    ] {
        node.add(name, &format!("{HEADER}maxPods: {pods}\nallowedUnsafeSysctls: [net.{pods}]\n"));
    }
    node.add("conf.d/30.yaml", "not even read");
    let loaded = load_with_drop_ins(&node).unwrap();
    assert_eq!(loaded.config.max_pods, 20);
    assert_eq!(loaded.skipped, [node.path().join("conf.d/30.yaml")]);

    std::fs::remove_file(node.path().join("conf.d/20.conf")).unwrap();
    assert_eq!(load_with_drop_ins(&node).unwrap().config.max_pods, 15);
    std::fs::remove_file(node.path().join("conf.d/15.conf")).unwrap();
    assert_eq!(load_with_drop_ins(&node).unwrap().config.max_pods, 1099);
}

// behaviour: CFG-21
#[test]
fn symlinks_to_files_are_followed_and_to_directories_are_not() {
    let node = Node::with_fields("");
    node.add("elsewhere/a.conf", &format!("{HEADER}maxPods: 5\n"));
    node.add("conf.d/ignored.txt", "");
    symlink(node.path().join("elsewhere"), node.path().join("conf.d/linked")).unwrap();
    assert_eq!(load_with_drop_ins(&node).unwrap().config.max_pods, 110);
    symlink(node.path().join("elsewhere/a.conf"), node.path().join("conf.d/a.conf")).unwrap();
    assert_eq!(load_with_drop_ins(&node).unwrap().config.max_pods, 5);
}

// behaviour: CFG-25
#[test]
fn unknown_drop_in_fields_are_ignored_with_a_warning() {
    let node = node("", "maxPod: 3\nauthentication: {colour: red}\nmaxPods: null");
    let loaded = load_with_drop_ins(&node).unwrap();
    let file = node.path().join("conf.d/10.conf");
    let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
    let expected = ["authentication.colour", "maxPod"]
        .map(|field| format!("{}: {field}: unknown field, ignored", file.display()));
    assert_eq!(warnings, expected);
}

// behaviour: CFG-24, CFG-26
#[test]
fn invalid_drop_in_is_fatal() {
    for (text, expected) in [
        (String::new(), "is empty"),
        (format!("{HEADER}maxPods: 1\nmaxPods: 2\n"), "duplicate"),
        (format!("{HEADER}a: [\n"), "is neither YAML nor JSON"),
        ("maxPods: 3\n".to_owned(), "found no apiVersion and no kind"),
        ("apiVersion: v1\nkind: Pod\n".to_owned(), "found apiVersion v1 and kind Pod"),
    ] {
        let node = Node::with_fields("");
        node.add("conf.d/10.conf", &text);
        let error = Chain(&load_with_drop_ins(&node).unwrap_err()).to_string();
        assert!(error.contains(expected) && error.contains("10.conf"), "{text:?}: {error}");
    }
    let node = node("maxPods: 3", "maxPods: many");
    let error = Chain(&load_with_drop_ins(&node).unwrap_err()).to_string();
    assert!(error.contains("maxPods: expected an integer"), "{error}");
    assert!(error.contains("10.conf"), "{error}");
}

// behaviour: CFG-27
#[test]
fn missing_drop_in_directory_is_fatal() {
    let node = Node::with_fields("");
    let error = load_with_drop_ins(&node).unwrap_err();
    let directory = node.path().join("conf.d");
    assert!(matches!(&error, ConfigError::ReadDirectory { path, .. } if *path == directory));
}

// behaviour: CFG-28
#[test]
fn drop_in_is_merged_after_defaults_of_the_file_are_set() {
    // The report frequency was set before the drop-in was merged.
    let update = node("", "nodeStatusUpdateFrequency: 20s");
    let config = load_with_drop_ins(&update).unwrap().config;
    assert_eq!(config.node_status_report_frequency, GoDuration::from_secs(300));

    // Thresholds of the file stay, and removing them all brings no default back.
    let config = load_with_drop_ins(&node("", "evictionHard: {pid.available: 5%}")).unwrap().config;
    assert_eq!(config.eviction_hard.len(), 6);
    let config = load_with_drop_ins(&node("", "evictionHard: null")).unwrap().config;
    assert_eq!(config.eviction_hard.len(), 0);
}

// behaviour: CFG-5
#[test]
fn relative_paths_of_a_drop_in_are_not_resolved() {
    let config = load_with_drop_ins(&node("", "staticPodPath: manifests")).unwrap().config;
    assert_eq!(config.static_pod_path, "manifests");
}

// behaviour: CFG-3
#[test]
fn drop_ins_without_a_file_merge_onto_legacy_defaults_and_flags() {
    let node = node("", "maxPods: 7");
    let flags = FlagSet::parse(["--pods-per-core=3", "--max-pods=9"]).unwrap();
    let directory = node.path().join("conf.d");
    let config = load_sources(None::<&Path>, Some(&directory), &flags).unwrap().config;
    assert_eq!(config.max_pods, 9);
    assert_eq!(config.pods_per_core, 3);
    assert_eq!(config.read_only_port, 10_255);
    assert_eq!(config.eviction_hard.len(), 0);
}
