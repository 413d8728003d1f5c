//! From text to fields.

use config::{ConfigError, GoDuration, Warning, load};
use model::chain::Chain;

use crate::{HEADER, Node, configured, errors, loaded};

#[test]
fn yaml_and_json_decode_to_the_same_configuration() {
    for text in [
        format!("{HEADER}maxPods: 7\nclusterDNS: [10.0.0.10]\n"),
        format!("---\n{HEADER}maxPods: 7\nclusterDNS:\n- 10.0.0.10\n"),
        format!("\u{feff}{HEADER}maxPods: 7\nclusterDNS: [\"10.0.0.10\"]\n"),
        format!("{HEADER}maxPods: 7\nclusterDNS: [10.0.0.10]\n---\n# nothing more\n"),
        format!("{HEADER}maxPods: 7\r\nclusterDNS: [10.0.0.10]\r\n"),
        "{\n\t\"apiVersion\": \"kubelet.config.k8s.io/v1beta1\",\n\t\"kind\": \
         \"KubeletConfiguration\",\n\t\"maxPods\": 7, \"clusterDNS\": [\"10.0.0.10\"]\n}"
            .to_owned(),
    ] {
        let loaded = Node::with_text(&text).load().unwrap();
        assert_eq!(loaded.warnings, [], "{text}");
        assert_eq!(loaded.config.max_pods, 7, "{text}");
        assert_eq!(loaded.config.cluster_dns, ["10.0.0.10"], "{text}");
    }
}

#[test]
fn scalars_are_decoded_as_in_apimachinery() {
    for (fields, pods) in [
        ("maxPods: 0644", 420),
        ("maxPods: 0x10", 16),
        ("maxPods: 1_000", 1000),
        ("maxPods: 1e2", 100),
        ("maxPods: 2.0", 2),
    ] {
        assert_eq!(configured(fields).max_pods, pods, "{fields}");
    }
    for fields in ["rotateCertificates: yes", "rotateCertificates: on", "rotateCertificates: true"]
    {
        assert!(configured(fields).rotate_certificates, "{fields}");
    }
}

// behaviour: CFG-6
#[test]
fn file_of_another_kind_is_refused_with_the_kind_found() {
    for (text, expected) in [
        ("", "is empty"),
        ("# nothing\n", "is empty"),
        ("  \n\n", "is empty"),
        ("- a\n", "does not contain an object"),
        ("abc", "does not contain an object"),
        ("a: [1\n", "is neither YAML nor JSON: "),
        ("a: b: c\n", "is neither YAML nor JSON: "),
        ("kind: KubeletConfiguration\n", "found no apiVersion and kind KubeletConfiguration"),
        ("apiVersion: v1\nkind: Pod\n", "found apiVersion v1 and kind Pod"),
        (
            "apiVersion: kubelet.config.k8s.io/v1alpha1\nkind: KubeletConfiguration\n",
            "found apiVersion kubelet.config.k8s.io/v1alpha1 and kind KubeletConfiguration",
        ),
        (
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: CredentialProviderConfig\n",
            "and kind CredentialProviderConfig",
        ),
        ("apiVersion: 1\nkind: true\n", "found apiVersion 1 and kind true"),
    ] {
        let error = Node::with_text(text).load().unwrap_err();
        assert!(matches!(error, ConfigError::Decode(_)), "{text:?}");
        let text_of_error = Chain(&error).to_string();
        assert!(text_of_error.contains(expected), "{text:?}: {text_of_error}");
        assert!(text_of_error.contains("kubelet.yaml"), "{text:?}: {text_of_error}");
    }
}

// behaviour: CFG-6
#[test]
fn missing_file_is_named_in_the_error() {
    let node = Node::with_text("");
    let path = node.path().join("absent.yaml");
    let error = load(&path).unwrap_err();
    assert!(matches!(&error, ConfigError::Read { path: named, .. } if *named == path));
}

#[test]
fn yaml_bomb_is_refused() {
    let mut lines = vec![format!("{HEADER}a: &a [x, x, x, x, x, x, x, x, x, x]")];
    for (this, last) in ["b", "c", "d", "e", "f", "g"].iter().zip(["a", "b", "c", "d", "e", "f"]) {
        let items = vec![format!("*{last}"); 10].join(", ");
        lines.push(format!("{this}: &{this} [{items}]"));
    }
    let text = lines.join("\n");
    let error = Node::with_text(&text).load().unwrap_err();
    assert!(matches!(error, ConfigError::Decode(_)));
}

// behaviour: CFG-9
#[test]
fn unknown_and_repeated_fields_are_warnings_with_their_paths() {
    let loaded = loaded(
        "maxPods: 1\nmaxPods: 2\nmaxpods: 3\nauthentication:\n  webhook: {cacheTtl: 1s}\n\
         evictionHard: {memory.available: 1Gi, memory.available: 2Gi}\n\
         registerWithTaints: [{key: a, effect: NoSchedule, colour: red}]",
    );
    assert_eq!(loaded.config.max_pods, 2);
    let duplicate = |field: &str| Warning::DuplicateField { field: field.to_owned() };
    let unknown = |field: &str| Warning::UnknownField { field: field.to_owned() };
    let mut warnings = loaded.warnings;
    warnings.sort_by_key(ToString::to_string);
    assert_eq!(
        warnings,
        [
            unknown("authentication.webhook.cacheTtl"),
            duplicate("evictionHard[memory.available]"),
            duplicate("maxPods"),
            unknown("maxpods"),
            unknown("registerWithTaints[0].colour"),
        ]
    );
}

// behaviour: CFG-13
#[test]
fn documents_after_the_first_are_ignored_with_a_warning() {
    let node = Node::with_text(&format!("{HEADER}maxPods: 3\n---\nmaxPods: 4\n"));
    let loaded = node.load().unwrap();
    assert_eq!(loaded.config.max_pods, 3);
    assert_eq!(loaded.warnings, [Warning::FurtherDocuments]);
}

// behaviour: CFG-10
#[test]
fn every_value_of_the_wrong_type_is_reported_with_its_path() {
    let mut found = errors(
        "maxPods: \"5\"\nsyncFrequency: 60\nfileCheckFrequency: 20 s\nclusterDomain: 123\n\
         clusterDNS: 10.0.0.10\nport: 70000\nkubeAPIQPS: -1\nauthentication:\n  webhook:\n    \
         enabled: \"yes\"\nsystemReserved: {cpu: 1, gpu: \"1\"}\ncontainerLogMaxSize: 10Q\n\
         cgroupDriver: docker\nevictionHard: {memory.free: 1Gi, nodefs.available: ten}\n\
         registerWithTaints: [{key: a, effect: Never}]\naddress: localhost\nauthorization: 3\n\
         logging: {flushFrequency: soon}",
    );
    found.sort_by(|one, other| one.field.cmp(&other.field));
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "address: \"localhost\" is not an IP address",
            "authentication.webhook.enabled: expected true or false, found a string",
            "authorization: expected an object, found the number 3",
            "cgroupDriver: \"docker\" is not one of cgroupfs, systemd",
            "clusterDNS: expected a list, found a string",
            "clusterDomain: expected a string (put the value in quotes), found the number 123",
            "containerLogMaxSize: \"10Q\" is not a quantity such as 100Mi, 1.5 or 250m",
            "evictionHard[memory.free]: \"memory.free\" is not one of memory.available, \
             nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree, \
             containerfs.available, containerfs.inodesFree, allocatableMemory.available, \
             pid.available",
            "evictionHard[nodefs.available]: \"ten\" is not a quantity such as 100Mi or a \
             percentage such as 10%",
            "fileCheckFrequency: \"20 s\" is not a duration such as 1m30s, 20s or 100ms",
            "kubeAPIQPS: expected an integer from 0 to 2147483647, found the number -1",
            "logging.flushFrequency: \"soon\" is not a duration such as 1m30s, 20s or 100ms",
            "maxPods: expected an integer, found a string",
            "port: expected an integer from 0 to 65535, found the number 70000",
            "registerWithTaints[0].effect: \"Never\" is not one of NoSchedule, PreferNoSchedule, \
             NoExecute",
            "syncFrequency: expected a duration such as 1m30s, found the number 60",
            "systemReserved.cpu: expected a quantity such as 100Mi, 1.5 or 250m in quotes, found the number 1",
            "systemReserved.gpu: \"gpu\" is not one of cpu, memory, ephemeral-storage, pid",
        ]
    );
}

// behaviour: CFG-7
#[test]
fn wrong_type_does_not_hide_an_invalid_value() {
    let found = errors("maxPods: many\ncontainerLogMaxFiles: 1");
    let fields: Vec<&str> = found.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(fields, ["maxPods", "containerLogMaxFiles"]);
}

// behaviour: CFG-12
#[test]
fn null_means_unset() {
    let config = configured("maxPods:\nstaticPodPath: ~\nevictionHard: null\nfeatureGates:");
    assert_eq!(config, configured(""));
}

#[test]
fn flush_frequency_may_be_a_number_of_nanoseconds() {
    for fields in ["logging: {flushFrequency: 7000000000}", "logging: {flushFrequency: 7s}"] {
        assert_eq!(configured(fields).logging.flush_frequency.duration(), GoDuration::from_secs(7));
    }
}

// behaviour: CFG-5
#[test]
fn path_fields_are_relative_to_the_file_directory() {
    let node = Node::with_fields(
        "staticPodPath: manifests\ntlsCertFile: ../tls.crt\ntlsPrivateKeyFile: /tls.key\n\
         resolvConf: resolv.conf\nvolumePluginDir: plugins\npodLogsDir: logs\n\
         authentication: {x509: {clientCAFile: ca.crt}}\nkubeletCgroups: agent",
    );
    let config = node.load().unwrap().config;
    let below = |name: &str| node.path().join(name).to_str().unwrap().to_owned();
    assert_eq!(config.static_pod_path, below("manifests"));
    assert_eq!(config.tls_private_key_file, "/tls.key");
    assert_eq!(config.resolv_conf, below("resolv.conf"));
    assert_eq!(config.volume_plugin_dir, below("plugins"));
    assert_eq!(config.pod_logs_dir, below("logs"));
    assert_eq!(config.authentication.x509.client_ca_file, below("ca.crt"));
    let parent = node.path().parent().unwrap().join("tls.crt");
    assert_eq!(config.tls_cert_file, parent.to_str().unwrap());
    assert_eq!(config.kubelet_cgroups, "agent");
}
