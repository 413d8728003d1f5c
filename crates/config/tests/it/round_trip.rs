//! Completing a configuration is idempotent.

use config::KubeletConfiguration;
use proptest::prelude::*;
use proptest::sample::{Index, subsequence};

use crate::{Node, configured};

/// Fields with values that are valid in any combination.
const FIELDS: &[(&str, &[&str])] = &[
    ("maxPods", &["0", "1", "250"]),
    ("podPidsLimit", &["-5", "-1", "0", "100"]),
    ("resolvConf", &["\"\"", "/run/resolv.conf", "local.conf"]),
    ("staticPodPath", &["\"\"", "manifests", "/etc/manifests"]),
    ("syncFrequency", &["0s", "90s", "1.5h"]),
    ("volumeStatsAggPeriod", &["-1s", "0s", "1ms"]),
    ("nodeStatusUpdateFrequency", &["0s", "7s"]),
    ("nodeStatusReportFrequency", &["0s", "9s"]),
    ("maxParallelImagePulls", &["1", "3"]),
    ("healthzPort", &["0", "1"]),
    ("readOnlyPort", &["0", "10255"]),
    ("address", &["\"\"", "\"::\"", "10.0.0.1"]),
    ("enableServer", &["true", "false"]),
    ("authentication", &["{anonymous: {enabled: true}}", "{webhook: {cacheTTL: 1s}}", "{}"]),
    ("authorization", &["{mode: AlwaysAllow}", "{webhook: {cacheUnauthorizedTTL: 0s}}"]),
    ("tlsMinVersion", &["\"\"", "VersionTLS13"]),
    ("cgroupDriver", &["\"\"", "systemd"]),
    ("enforceNodeAllocatable", &["[none]", "[pods]"]),
    ("systemReserved", &["{}", "{cpu: 500m, memory: 1.5Gi}"]),
    ("reservedMemory", &["[{numaNode: 0, limits: {memory: 1024}}]"]),
    ("evictionHard", &["{memory.available: 5%}", "{pid.available: 100}", "null"]),
    ("mergeDefaultEvictionSettings", &["true", "false"]),
    ("evictionSoftGracePeriod", &["{memory.available: 1m30s}"]),
    ("memorySwap", &["{}", "{swapBehavior: LimitedSwap}"]),
    ("singleProcessOOMKill", &["true", "false"]),
    ("memoryThrottlingFactor", &["0.5", "1"]),
    ("registerWithTaints", &["[{key: a, value: b, effect: NoSchedule}, {key: c}]"]),
    ("userNamespaces", &["{}", "{idsPerPod: 131072}"]),
    ("crashLoopBackOff", &["{}", "{maxContainerRestartPeriod: 2s}"]),
    ("logging", &["{flushFrequency: 7000000000, verbosity: 3}", "{format: json}"]),
    ("tracing", &["{}", "{samplingRatePerMillion: 5}"]),
    ("staticPodURLHeader", &["{A: [b, c]}"]),
    ("featureGates", &["{MemoryQoS: true}", "{KubeletEnsureSecretPulledImages: false}"]),
    ("shutdownGracePeriodByPodPriority", &["[{priority: 1, shutdownGracePeriodSeconds: 2}]"]),
];

fn some_fields() -> impl Strategy<Value = String> {
    let chosen = subsequence(FIELDS, 0..=FIELDS.len());
    (chosen, any::<[Index; 4]>()).prop_map(|(fields, picks)| {
        let lines = fields.iter().enumerate().map(|(index, (name, values))| {
            let pick = &picks[index % picks.len()];
            // Quantities such as 100 must be strings.
            format!(
                "{name}: {}\n",
                values[pick.index(values.len())].replace(": 100}", ": \"100\"}")
            )
        });
        lines.collect()
    })
}

fn read_back(config: &KubeletConfiguration) -> KubeletConfiguration {
    let loaded = Node::with_text(&config.to_document().to_string()).load().unwrap();
    // Settings of generally available features are warnings both times.
    assert_eq!(loaded.warnings, []);
    loaded.config
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn encoded_configuration_decodes_to_the_same_values(fields in some_fields()) {
        let config = configured(&fields);
        prop_assert_eq!(read_back(&config), config);
    }
}

// As with the kubelet, whose /configz shows the same.
#[test]
fn empty_values_are_omitted_and_decode_to_their_defaults() {
    let config = configured("enforceNodeAllocatable: []\nevictionHard: {}");
    assert!(config.enforce_node_allocatable.is_empty() && config.eviction_hard.is_empty());
    let document = config.to_document();
    assert!(document["enforceNodeAllocatable"].is_null() && document["evictionHard"].is_null());
    assert_eq!(read_back(&config), configured(""));
}

#[test]
fn defaults_round_trip() {
    let config = configured("");
    assert_eq!(read_back(&config), config);
}

#[test]
fn every_field_name_is_unique() {
    let mut names = KubeletConfiguration::FIELDS.to_vec();
    assert_eq!(names.len(), 125);
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 125);
}
