//! A configuration of real nodes.

use std::path::Path;

use config::{
    AuthorizationMode, CgroupDriver, EvictionSignal, GoDuration, KubeletConfiguration, load,
};

#[test]
fn full_configuration_of_an_older_cluster_has_no_warnings() {
    let loaded = load(Path::new("tests/data/full.yaml")).unwrap();
    assert_eq!(loaded.warnings, []);

    let config = loaded.config;
    assert_eq!(config.static_pod_path, "/etc/kubernetes/manifests");
    assert_eq!(config.cgroup_driver, CgroupDriver::Systemd);
    assert_eq!(config.authorization.mode, AuthorizationMode::Webhook);
    assert_eq!(config.authentication.x509.client_ca_file, "/etc/kubernetes/pki/ca.pem");
    assert_eq!(config.read_only_port, 10_255);
    assert_eq!(config.kube_api_qps, 5);
    assert!(config.rotate_certificates);
    // The update frequency is set, so the report frequency follows it.
    assert_eq!(config.node_status_report_frequency, GoDuration::from_secs(10));
    // Four thresholds are set, so the fifth has no default.
    assert_eq!(config.eviction_hard.len(), 4);
    assert!(!config.eviction_hard.contains_key(&EvictionSignal::ImageFsInodesFree));
}

#[test]
fn file_without_fields_gives_the_defaults() {
    let config = crate::configured("");
    assert_eq!(config.restart_back_off().max.as_secs(), 300);
    let plain = KubeletConfiguration {
        crash_loop_back_off: config.crash_loop_back_off.clone(),
        image_pull_credentials_verification_policy: config
            .image_pull_credentials_verification_policy,
        ..KubeletConfiguration::default()
    };
    assert_eq!(config, plain);
}
