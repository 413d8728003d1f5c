//! Which settings have an effect. The others are accepted, since a configuration is shared with the
//! upstream kubelet, but whoever sets them should know.

use config::KubeletConfiguration;
use config::flags::{Flag, FlagSet, Target, known};
use serde_json::Value;

/// Fields of the configuration that the agent acts on, each with all that is below it.
const FIELDS: &[&str] = &[
    "allowedUnsafeSysctls",
    "apiVersion",
    "cgroupDriver",
    "cgroupRoot",
    "cgroupsPerQOS",
    "clusterDNS",
    "clusterDomain",
    "configMapAndSecretChangeDetectionStrategy",
    "containerRuntimeEndpoint",
    "cpuCFSQuota",
    "cpuCFSQuotaPeriod",
    "crashLoopBackOff",
    "enableControllerAttachDetach",
    "enforceNodeAllocatable",
    "eventBurst",
    "eventRecordQPS",
    "evictionHard.memory.available",
    "evictionHard.nodefs.available",
    "failCgroupV1",
    "failSwapOn",
    "featureGates.ContainerRestartRules",
    "featureGates.ContainerStopSignals",
    "featureGates.CustomCPUCFSQuotaPeriod",
    "featureGates.EventedPLEG",
    "featureGates.HostnameOverride",
    "featureGates.InPlacePodLevelResourcesVerticalScaling",
    "featureGates.InPlacePodVerticalScalingInitContainers",
    "featureGates.KubeletCrashLoopBackOffMax",
    "featureGates.KubeletInUserNamespace",
    "featureGates.KubeletPodResourcesListUseActivePods",
    "featureGates.NodeDeclaredFeatures",
    "featureGates.PodLevelResources",
    "featureGates.RestartAllContainersOnContainerExits",
    "featureGates.RuntimeClassInImageCriApi",
    "featureGates.ReduceDefaultCrashLoopBackOffDecay",
    "featureGates.TaintTolerationComparisonOperators",
    "featureGates.UserNamespacesHostNetworkSupport",
    "fileCheckFrequency",
    "httpCheckFrequency",
    "healthzBindAddress",
    "healthzPort",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "imageMaximumGCAge",
    "imageMinimumGCAge",
    "imageServiceEndpoint",
    "kind",
    "kubeAPIBurst",
    "kubeAPIQPS",
    "kubeReserved",
    "kubeReservedCgroup",
    "localStorageCapacityIsolation",
    "logging.format",
    "logging.verbosity",
    "makeIPTablesUtilChains",
    "maxOpenFiles",
    "maxPods",
    "mergeDefaultEvictionSettings",
    "nodeLeaseDurationSeconds",
    "nodeStatusMaxImages",
    "nodeStatusReportFrequency",
    "nodeStatusUpdateFrequency",
    "oomScoreAdj",
    "podCIDR",
    "podLogsDir",
    "podPidsLimit",
    "podsPerCore",
    "protectKernelDefaults",
    "providerID",
    "registerNode",
    "registerWithTaints",
    "reservedSystemCPUs",
    "resolvConf",
    "runtimeRequestTimeout",
    "seccompDefault",
    "singleProcessOOMKill",
    "staticPodPath",
    "staticPodURL",
    "staticPodURLHeader",
    "syncFrequency",
    "systemReserved",
    "systemReservedCgroup",
    #[cfg(feature = "otel")]
    "tracing",
    "userNamespaces",
];

/// What switches all gates of a stage, those with an effect among them.
const STAGES: [&str; 2] = ["featureGates.AllAlpha", "featureGates.AllBeta"];

/// Values that say what the agent does anyway, as JSON.
const AS_IT_IS: &[(&str, &str)] = &[
    ("contentType", r#""application/json""#),
    ("enableServer", "false"),
    ("maxParallelImagePulls", "1"),
    ("memorySwap.swapBehavior", r#""NoSwap""#),
    ("registryPullQPS", "0"),
];

/// Flags without a field that the agent acts on.
const FLAGS: &[&str] = &[
    "cloud-provider",
    "config",
    "config-dir",
    "experimental-allocatable-ignore-eviction",
    "ferrolet-config",
    "help",
    "hostname-override",
    "kubeconfig",
    "maximum-dead-containers",
    "maximum-dead-containers-per-container",
    "minimum-container-ttl-duration",
    "node-ip",
    "node-labels",
    "root-dir",
    "seccomp-default",
    "version",
];

/// Whether a flag has an effect, or some of what can be set with it has.
pub(crate) fn has_effect(flag: &Flag) -> bool {
    match flag.target {
        Target::Field { path, .. } => FIELDS.iter().any(|field| {
            field.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        }),
        _ => FLAGS.contains(&flag.name),
    }
}

/// What was set without effect: flags by name, then fields by path.
pub(crate) fn without_effect(flags: &FlagSet, config: &KubeletConfiguration) -> Vec<String> {
    let own = known().iter().filter(|flag| matches!(flag.target, Target::Own { .. }));
    let given = own.filter(|flag| flags.is_given(flag.name) && !FLAGS.contains(&flag.name));
    let mut settings: Vec<String> = given.map(|flag| format!("--{}", flag.name)).collect();
    let default = if flags.is_given("config") {
        KubeletConfiguration::of_empty_file()
    } else {
        KubeletConfiguration::without_file(&flags.feature_gates())
    };
    collect("", &config.to_document(), &default.to_document(), &mut settings);
    settings
}

/// Whether some of what is below a field has an effect.
fn has_parts(path: &str) -> bool {
    let below = |field: &&str| field.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
    FIELDS.iter().any(below)
}

/// Collects the paths of fields that differ from their defaults and have no effect.
fn collect(path: &str, value: &Value, default: &Value, settings: &mut Vec<String>) {
    let has_effect = FIELDS.contains(&path) || STAGES.contains(&path);
    let is_so = |(field, is): &(&str, &str)| {
        *field == path && is.parse().is_ok_and(|is: Value| is == *value)
    };
    if value == default || has_effect || AS_IT_IS.iter().any(is_so) {
        return;
    }
    match value {
        Value::Object(fields) if path.is_empty() || default.is_object() || has_parts(path) => {
            for (name, value) in fields {
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                collect(&below, value, &default[name], settings);
            }
        }
        _ => settings.push(path.to_owned()),
    }
}

#[cfg(test)]
#[path = "effects_tests.rs"]
mod tests;
