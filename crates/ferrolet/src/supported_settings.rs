//! Which settings have an effect. Others are accepted, because the configuration is shared with the
//! upstream kubelet, and reported to the operator.

use config::KubeletConfiguration;
use config::flags::{Flag, FlagSet, Target, known};
use serde_json::Value;

/// Fields of the configuration that the agent acts on, with everything below them.
const FIELDS: &[&str] = &[
    "address",
    "allowedUnsafeSysctls",
    "apiVersion",
    "authentication",
    "authorization",
    "cgroupDriver",
    "cgroupRoot",
    "cgroupsPerQOS",
    "clusterDNS",
    "clusterDomain",
    "configMapAndSecretChangeDetectionStrategy",
    "containerLogMaxFiles",
    "containerLogMaxSize",
    "containerLogMaxWorkers",
    "containerLogMonitorInterval",
    "containerRuntimeEndpoint",
    "cpuCFSQuota",
    "cpuCFSQuotaPeriod",
    "crashLoopBackOff",
    "enableControllerAttachDetach",
    "enableDebugFlagsHandler",
    "enableDebuggingHandlers",
    "enableServer",
    "enableSystemLogHandler",
    "enableSystemLogQuery",
    "enforceNodeAllocatable",
    "eventBurst",
    "eventRecordQPS",
    "evictionHard",
    "evictionMaxPodGracePeriod",
    "evictionMinimumReclaim",
    "evictionPressureTransitionPeriod",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "failCgroupV1",
    "failSwapOn",
    "featureGates.AllowDNSOnlyNodeCSR",
    "featureGates.ChangeContainerStatusOnKubeletRestart",
    "featureGates.ClusterTrustBundle",
    "featureGates.ClusterTrustBundleProjection",
    "featureGates.ContainerRestartRules",
    "featureGates.ContainerStopSignals",
    "featureGates.CustomCPUCFSQuotaPeriod",
    "featureGates.EventedPLEG",
    "featureGates.HostnameOverride",
    "featureGates.InPlacePodLevelResourcesVerticalScaling",
    "featureGates.InPlacePodVerticalScalingInitContainers",
    "featureGates.KubeletCrashLoopBackOffMax",
    "featureGates.KubeletEnsureSecretPulledImages",
    "featureGates.KubeletInUserNamespace",
    "featureGates.KubeletPodResourcesListUseActivePods",
    "featureGates.KubeletServiceAccountTokenForCredentialProviders",
    "featureGates.NodeDeclaredFeatures",
    "featureGates.PodCertificateRequest",
    "featureGates.PodLevelResources",
    "featureGates.PodLogsQuerySplitStreams",
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
    "imagePullCredentialsVerificationPolicy",
    "imageServiceEndpoint",
    "kernelMemcgNotification",
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
    "maxParallelImagePulls",
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
    "port",
    "preloadedImagesVerificationAllowlist",
    "protectKernelDefaults",
    "providerID",
    "readOnlyPort",
    "registerNode",
    "registerWithTaints",
    "registryBurst",
    "registryPullQPS",
    "reservedSystemCPUs",
    "resolvConf",
    "rotateCertificates",
    "runtimeRequestTimeout",
    "seccompDefault",
    "serializeImagePulls",
    "serverTLSBootstrap",
    "singleProcessOOMKill",
    "staticPodPath",
    "staticPodURL",
    "staticPodURLHeader",
    "syncFrequency",
    "systemReserved",
    "systemReservedCgroup",
    "tlsCertFile",
    "tlsCipherSuites",
    "tlsCurvePreferences",
    "tlsMinVersion",
    "tlsPrivateKeyFile",
    #[cfg(feature = "otel")]
    "tracing",
    "userNamespaces",
    "volumeStatsAggPeriod",
];

/// The gates that switch a whole stage, which includes gates with an effect.
const STAGES: [&str; 2] = ["featureGates.AllAlpha", "featureGates.AllBeta"];

/// Values that match the behaviour of the agent, as JSON.
const VALUES_IN_EFFECT: &[(&str, &str)] = &[
    ("contentType", r#""application/json""#),
    ("enableProfilingHandler", "false"),
    ("memorySwap.swapBehavior", r#""NoSwap""#),
];

/// Defaults that match the behaviour of the agent, as JSON: they need no warning.
const DEFAULTS_IN_EFFECT: &[(&str, &str)] = &[
    ("cpuManagerPolicy", r#""none""#),
    ("memoryManagerPolicy", r#""None""#),
    ("memoryReservationPolicy", r#""None""#),
    ("memorySwap", "{}"),
    ("shutdownGracePeriod", r#""0s""#),
    ("shutdownGracePeriodCriticalPods", r#""0s""#),
    ("topologyManagerPolicy", r#""none""#),
];

/// Features that the agent has and that cannot be switched. All others without a gate among [`FIELDS`] are not
/// implemented.
const BUILT_IN: &[&str] = &[
    "DisableNodeKubeProxyVersion",
    "ImageMaximumGCAge",
    "InPlacePodVerticalScaling",
    "KubeletCgroupDriverFromCRI",
    "KubeletPodResourcesGet",
    #[cfg(feature = "otel")]
    "KubeletTracing",
    "PLEGOnDemandRelist",
    "PodLifecycleSleepAction",
    "PodLifecycleSleepActionAllowZero",
    "PodObservedGenerationTracking",
    "PodReadyToStartContainersCondition",
    "PreventStaticPodAPIReferences",
    "ProcMountType",
    "RecursiveReadOnlyMounts",
    "RelaxedDNSSearchValidation",
    "RelaxedEnvironmentVariableValidation",
    "RotateKubeletServerCertificate",
    "SidecarContainers",
    "SupplementalGroupsPolicy",
    "SystemdWatchdog",
    "UserNamespacesSupport",
    "WatchListClient",
];

/// Flags without a field that the agent acts on.
const FLAGS: &[&str] = &[
    "bootstrap-kubeconfig",
    "cert-dir",
    "cloud-provider",
    "config",
    "config-dir",
    "experimental-allocatable-ignore-eviction",
    "ferrolet-config",
    "help",
    "hostname-override",
    "image-credential-provider-bin-dir",
    "image-credential-provider-config",
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

/// Whether a flag has an effect, even a partial one.
pub fn has_effect(flag: &Flag) -> bool {
    match flag.target {
        Target::Field { path, .. } => FIELDS.iter().any(|field| {
            field.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        }),
        _ => FLAGS.contains(&flag.name),
    }
}

/// Settings without effect: flags by name, then fields by path.
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

/// The remark on a value that has no effect.
pub fn remark(path: &str, value: &Value) -> Option<&'static str> {
    let is_below = |field: &str| {
        path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let has_effect = FIELDS.iter().chain(&STAGES).any(|field| is_below(field));
    (!has_effect && !is_in_effect(path, value)).then_some("no effect yet")
}

/// Whether a feature is on, given the setting of its gate.
pub(crate) fn feature_is_on(name: &str, gate: bool) -> bool {
    let path = format!("featureGates.{name}");
    let is_switched = FIELDS.iter().chain(&STAGES).any(|field| *field == path);
    BUILT_IN.contains(&name) || (gate && is_switched)
}

/// Whether a value matches the behaviour of the agent.
fn is_in_effect(path: &str, value: &Value) -> bool {
    VALUES_IN_EFFECT
        .iter()
        .chain(DEFAULTS_IN_EFFECT)
        .any(|(field, is)| *field == path && is.parse().is_ok_and(|is: Value| is == *value))
}

/// Whether some field below this one has an effect.
fn has_parts(path: &str) -> bool {
    let below = |field: &&str| field.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
    FIELDS.iter().any(below)
}

/// Collects the paths of fields that differ from their defaults and have no effect.
fn collect(path: &str, value: &Value, default: &Value, settings: &mut Vec<String>) {
    let has_effect = FIELDS.contains(&path) || STAGES.contains(&path);
    if value == default || has_effect || is_in_effect(path, value) {
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
#[path = "supported_settings_tests.rs"]
mod tests;
