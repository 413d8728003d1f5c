//! Which settings have an effect. The others are accepted, since a configuration is shared with the
//! upstream kubelet, but whoever sets them should know.

use config::KubeletConfiguration;
use config::flags::{Flag, FlagSet, Target, known};
use serde_json::Value;

/// Fields of the configuration that the agent acts on, each with all that is below it.
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
    "evictionHard.memory.available",
    "evictionHard.nodefs.available",
    "failCgroupV1",
    "failSwapOn",
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
    "runtimeRequestTimeout",
    "seccompDefault",
    "serializeImagePulls",
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
];

/// What switches all gates of a stage, those with an effect among them.
const STAGES: [&str; 2] = ["featureGates.AllAlpha", "featureGates.AllBeta"];

/// Values that say what the agent does anyway, as JSON.
const AS_IT_IS: &[(&str, &str)] = &[
    ("contentType", r#""application/json""#),
    ("enableProfilingHandler", "false"),
    ("memorySwap.swapBehavior", r#""NoSwap""#),
];

/// Defaults that say what the agent does anyway, as JSON: they mislead no operator.
const DEFAULTS_AS_IT_IS: &[(&str, &str)] = &[
    ("cpuManagerPolicy", r#""none""#),
    ("memoryManagerPolicy", r#""None""#),
    ("memoryReservationPolicy", r#""None""#),
    ("memorySwap", "{}"),
    ("shutdownGracePeriod", r#""0s""#),
    ("shutdownGracePeriodCriticalPods", r#""0s""#),
    ("topologyManagerPolicy", r#""none""#),
];

/// Fields without effect that a node relies on at their defaults, and what is missing.
const MISSED_AT_DEFAULT: &[(&str, &str)] = &[("evictionHard", "no pod is evicted")];

/// Fields with a part of their effect, and what that is.
const PARTLY: &[(&str, &str)] = &[
    ("evictionHard.memory.available", "kept back from pods; no eviction yet"),
    ("evictionHard.nodefs.available", "kept back from pods; no eviction yet"),
];

/// Features that the agent has and does not switch. All others without a gate among [`FIELDS`] are not
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
    "SidecarContainers",
    "SupplementalGroupsPolicy",
    "SystemdWatchdog",
    "UserNamespacesSupport",
    "WatchListClient",
];

/// Flags without a field that the agent acts on.
const FLAGS: &[&str] = &[
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

/// Whether a flag has an effect, or some of what can be set with it has.
pub fn has_effect(flag: &Flag) -> bool {
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

/// Settings that have no effect yet and matter at their defaults, each with what is missing. Those that
/// were named already are left out.
pub(crate) fn missed_at_default(config: &KubeletConfiguration, named: &[String]) -> Vec<String> {
    let document = config.to_document();
    let is_off = |value: &Value| match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    let missed = MISSED_AT_DEFAULT.iter().filter(|(field, _)| {
        let value = &document[field];
        !is_off(value) && !is_as_it_is(field, value) && !named.iter().any(|name| name == field)
    });
    missed.map(|(field, what)| format!("{field} ({what})")).collect()
}

/// What an operator should know of a value that has no effect, or not its whole effect.
pub fn remark(path: &str, value: &Value) -> Option<&'static str> {
    if let Some((_, part)) = PARTLY.iter().find(|(field, _)| *field == path) {
        return Some(part);
    }
    let is_below = |field: &str| {
        path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let has_effect = FIELDS.iter().chain(&STAGES).any(|field| is_below(field));
    (!has_effect && !is_as_it_is(path, value)).then_some("no effect yet")
}

/// Whether a feature is on, given what its gate says.
pub(crate) fn feature_is_on(name: &str, gate: bool) -> bool {
    let path = format!("featureGates.{name}");
    let is_switched = FIELDS.iter().chain(&STAGES).any(|field| *field == path);
    BUILT_IN.contains(&name) || (gate && is_switched)
}

/// Whether a value says what the agent does anyway.
fn is_as_it_is(path: &str, value: &Value) -> bool {
    AS_IT_IS
        .iter()
        .chain(DEFAULTS_AS_IT_IS)
        .any(|(field, is)| *field == path && is.parse().is_ok_and(|is: Value| is == *value))
}

/// Whether some of what is below a field has an effect.
fn has_parts(path: &str) -> bool {
    let below = |field: &&str| field.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
    FIELDS.iter().any(below)
}

/// Collects the paths of fields that differ from their defaults and have no effect.
fn collect(path: &str, value: &Value, default: &Value, settings: &mut Vec<String>) {
    let has_effect = FIELDS.contains(&path) || STAGES.contains(&path);
    if value == default || has_effect || is_as_it_is(path, value) {
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
