//! Defaults that are more than a constant.

use std::collections::BTreeMap;

use config::{
    AuthorizationMode, EvictionSignal, GoDuration, ImagePullCredentialsVerificationPolicy,
    KubeletConfiguration, default_hard_eviction,
};

use crate::configured;

// behaviour: CFG-30
#[test]
fn report_frequency_defaults_to_an_explicit_update_frequency() {
    for (fields, update, report) in [
        ("", 10, 300),
        ("nodeStatusUpdateFrequency: 10s", 10, 10),
        ("nodeStatusUpdateFrequency: 20s", 20, 20),
        ("nodeStatusUpdateFrequency: 0s", 10, 300),
        ("nodeStatusReportFrequency: 1m", 10, 60),
        ("nodeStatusUpdateFrequency: 20s\nnodeStatusReportFrequency: 1m", 20, 60),
        ("nodeStatusUpdateFrequency: 20s\nnodeStatusReportFrequency: 0s", 20, 20),
    ] {
        let config = configured(fields);
        assert_eq!(config.node_status_update_frequency, GoDuration::from_secs(update), "{fields}");
        assert_eq!(config.node_status_report_frequency, GoDuration::from_secs(report), "{fields}");
    }
}

// behaviour: CFG-31
#[test]
fn pulls_are_parallel_when_a_maximum_is_set() {
    for (fields, serialize) in [
        ("", true),
        ("maxParallelImagePulls: 1", true),
        ("maxParallelImagePulls: 2", false),
        ("maxParallelImagePulls: 2\nserializeImagePulls: false", false),
        ("serializeImagePulls: false", false),
    ] {
        assert_eq!(configured(fields).serialize_image_pulls, serialize, "{fields}");
    }
}

// behaviour: CFG-32
#[test]
fn hard_eviction_defaults_are_replaced_or_merged_with_a_map() {
    let signals = |fields: &str| configured(fields).eviction_hard.into_keys().collect::<Vec<_>>();
    let all: Vec<_> = default_hard_eviction().into_keys().collect();
    assert_eq!(all.len(), 5);
    assert_eq!(signals(""), all);
    assert_eq!(signals("evictionHard: {}"), []);
    assert_eq!(signals("evictionHard: {pid.available: 5%}"), [EvictionSignal::PidAvailable]);
    let merged = configured(
        "evictionHard: {memory.available: 1Gi, pid.available: 5%}\n\
         mergeDefaultEvictionSettings: true",
    );
    assert_eq!(merged.eviction_hard.len(), 6);
    assert_eq!(merged.eviction_hard[&EvictionSignal::MemoryAvailable].as_str(), "1Gi");
    assert_eq!(merged.eviction_hard[&EvictionSignal::NodeFsAvailable].as_str(), "10%");
}

// behaviour: CFG-11
#[test]
fn zero_is_a_default_only_for_some_fields() {
    let config = configured(
        "maxPods: 0\nport: 0\nsyncFrequency: 0s\nevictionPressureTransitionPeriod: 0s\n\
         registryBurst: 0\ncontainerLogMaxSize: \"\"\naddress: \"\"\nauthorization: {mode: \"\"}\n\
         healthzPort: 0\nkubeAPIQPS: 0\nregistryPullQPS: 0\nnodeStatusMaxImages: 0\n\
         oomScoreAdj: 0\nresolvConf: \"\"\nimageGCLowThresholdPercent: 0\nenableServer: false\n\
         podPidsLimit: 0\nenforceNodeAllocatable: []",
    );
    let unset = configured("");
    assert_eq!(config.max_pods, unset.max_pods);
    assert_eq!(config.port, unset.port);
    assert_eq!(config.sync_frequency, unset.sync_frequency);
    assert_eq!(config.registry_burst, unset.registry_burst);
    assert_eq!(config.container_log_max_size, unset.container_log_max_size);
    assert_eq!(config.address, unset.address);
    assert_eq!(config.authorization, unset.authorization);
    assert_eq!(
        config.eviction_pressure_transition_period,
        unset.eviction_pressure_transition_period
    );

    assert_eq!(config.healthz_port, 0);
    assert_eq!(config.kube_api_qps, 0);
    assert_eq!(config.registry_pull_qps, 0);
    assert_eq!(config.node_status_max_images, 0);
    assert_eq!(config.oom_score_adj, 0);
    assert_eq!(config.resolv_conf, "");
    assert_eq!(config.image_gc_low_threshold_percent, 0);
    assert_eq!(config.pod_pids_limit, 0);
    assert_eq!(config.enforce_node_allocatable, []);
    assert!(!config.enable_server);
}

// behaviour: CFG-33
#[test]
fn negative_pids_limit_is_minus_one() {
    for (fields, limit) in [("", -1), ("podPidsLimit: -7", -1), ("podPidsLimit: 7", 7)] {
        assert_eq!(configured(fields).pod_pids_limit, limit, "{fields}");
    }
}

// behaviour: CFG-34
#[test]
fn feature_fields_have_defaults_only_while_the_gate_is_on() {
    let on = configured("");
    assert_eq!(
        on.crash_loop_back_off.max_container_restart_period,
        Some(GoDuration::from_secs(300))
    );
    assert_eq!(
        on.image_pull_credentials_verification_policy,
        Some(ImagePullCredentialsVerificationPolicy::NeverVerifyPreloadedImages)
    );
    let off = configured(
        "featureGates: {KubeletCrashLoopBackOffMax: false, KubeletEnsureSecretPulledImages: false}",
    );
    assert_eq!(off.crash_loop_back_off.max_container_restart_period, None);
    assert_eq!(off.image_pull_credentials_verification_policy, None);
}

// behaviour: CFG-2
#[test]
fn start_without_a_file_has_the_legacy_open_defaults() {
    let config = KubeletConfiguration::without_file(&BTreeMap::new());
    assert!(config.authentication.anonymous.enabled);
    assert!(!config.authentication.webhook.enabled);
    assert_eq!(config.authorization.mode, AuthorizationMode::AlwaysAllow);
    assert_eq!(config.read_only_port, 10_255);
    assert_eq!(config.eviction_hard, BTreeMap::new());

    // Everything else is as in a file without fields.
    let mut same = configured("");
    same.authentication = config.authentication.clone();
    same.authorization = config.authorization.clone();
    same.read_only_port = config.read_only_port;
    same.eviction_hard.clear();
    assert_eq!(config, same);
}
