//! Every flag of the command line: its syntax, and what it sets.

use super::{Flag, Syntax, Target};
use Syntax::{
    Address, Bool, Digits, Duration, Gates, Headers, Integer, Labels, List, Modules, OnePair,
    Pairs, ReservedMemory, Taints, Text, Thresholds,
};

const fn field(name: &'static str, syntax: Syntax, path: &'static str) -> Flag {
    Flag { name, syntax, target: Target::Field { path, deprecated: true } }
}

/// A flag that is kept although there is a field for it.
const fn lasting(name: &'static str, syntax: Syntax, path: &'static str) -> Flag {
    Flag { name, syntax, target: Target::Field { path, deprecated: false } }
}

const fn own(name: &'static str, syntax: Syntax, default: &'static str) -> Flag {
    Flag { name, syntax, target: Target::Own { default, deprecated: None } }
}

const fn old(
    name: &'static str,
    syntax: Syntax,
    default: &'static str,
    advice: &'static str,
) -> Flag {
    Flag { name, syntax, target: Target::Own { default, deprecated: Some(advice) } }
}

const fn ignored(name: &'static str, syntax: Syntax) -> Flag {
    Flag { name, syntax, target: Target::Ignored }
}

/// Upstream's advice does not apply here: there is no eviction yet.
const EVICTION: &str =
    "upstream will drop it in favour of eviction; it has an effect, and there is no eviction yet";
const NO_PLUGIN: &str = "volume plugins of this kind are gone, use CSI";
const NO_IGNORE: &str = "lower evictionHard instead";

#[rustfmt::skip]
pub(super) const FLAGS: &[Flag] = &[
    field("address", Address, "address"),
    field("allowed-unsafe-sysctls", List, "allowedUnsafeSysctls"),
    field("anonymous-auth", Bool, "authentication.anonymous.enabled"),
    ignored("application-metrics-count-limit", Integer),
    field("authentication-token-webhook", Bool, "authentication.webhook.enabled"),
    field("authentication-token-webhook-cache-ttl", Duration, "authentication.webhook.cacheTTL"),
    field("authorization-mode", Text, "authorization.mode"),
    field("authorization-webhook-cache-authorized-ttl", Duration, "authorization.webhook.cacheAuthorizedTTL"),
    field("authorization-webhook-cache-unauthorized-ttl", Duration, "authorization.webhook.cacheUnauthorizedTTL"),
    ignored("boot-id-file", Text),
    own("bootstrap-kubeconfig", Text, ""),
    own("cert-dir", Text, "/var/lib/kubelet/pki"),
    field("cgroup-driver", Text, "cgroupDriver"),
    field("cgroup-root", Text, "cgroupRoot"),
    field("cgroups-per-qos", Bool, "cgroupsPerQOS"),
    field("client-ca-file", Text, "authentication.x509.clientCAFile"),
    own("cloud-provider", Text, ""),
    field("cluster-dns", List, "clusterDNS"),
    field("cluster-domain", Text, "clusterDomain"),
    own("config", Text, ""),
    own("config-dir", Text, ""),
    ignored("container-hints", Text),
    field("container-log-max-files", Integer, "containerLogMaxFiles"),
    field("container-log-max-size", Text, "containerLogMaxSize"),
    field("container-runtime-endpoint", Text, "containerRuntimeEndpoint"),
    ignored("containerd", Text),
    ignored("containerd-namespace", Text),
    field("contention-profiling", Bool, "enableContentionProfiling"),
    field("cpu-cfs-quota", Bool, "cpuCFSQuota"),
    field("cpu-cfs-quota-period", Duration, "cpuCFSQuotaPeriod"),
    field("cpu-manager-policy", Text, "cpuManagerPolicy"),
    field("cpu-manager-policy-options", OnePair, "cpuManagerPolicyOptions"),
    field("cpu-manager-reconcile-period", Duration, "cpuManagerReconcilePeriod"),
    field("enable-controller-attach-detach", Bool, "enableControllerAttachDetach"),
    field("enable-debugging-handlers", Bool, "enableDebuggingHandlers"),
    ignored("enable-load-reader", Bool),
    field("enable-server", Bool, "enableServer"),
    field("enforce-node-allocatable", List, "enforceNodeAllocatable"),
    field("event-burst", Integer, "eventBurst"),
    field("event-qps", Integer, "eventRecordQPS"),
    ignored("event-storage-age-limit", Text),
    ignored("event-storage-event-limit", Text),
    field("eviction-hard", Thresholds, "evictionHard"),
    field("eviction-max-pod-grace-period", Integer, "evictionMaxPodGracePeriod"),
    field("eviction-minimum-reclaim", Pairs, "evictionMinimumReclaim"),
    field("eviction-pressure-transition-period", Duration, "evictionPressureTransitionPeriod"),
    field("eviction-soft", Thresholds, "evictionSoft"),
    field("eviction-soft-grace-period", Pairs, "evictionSoftGracePeriod"),
    own("exit-on-lock-contention", Bool, "false"),
    old("experimental-allocatable-ignore-eviction", Bool, "false", NO_IGNORE),
    old("experimental-mounter-path", Text, "", NO_PLUGIN),
    lasting("fail-cgroupv1", Bool, "failCgroupV1"),
    field("fail-swap-on", Bool, "failSwapOn"),
    field("feature-gates", Gates, "featureGates"),
    own("ferrolet-config", Text, ""),
    field("file-check-frequency", Duration, "fileCheckFrequency"),
    ignored("global-housekeeping-interval", Duration),
    field("hairpin-mode", Text, "hairpinMode"),
    field("healthz-bind-address", Address, "healthzBindAddress"),
    field("healthz-port", Integer, "healthzPort"),
    own("help", Bool, "false"),
    own("hostname-override", Text, ""),
    own("housekeeping-interval", Duration, "10s"),
    field("http-check-frequency", Duration, "httpCheckFrequency"),
    own("image-credential-provider-bin-dir", Text, ""),
    own("image-credential-provider-config", Text, ""),
    field("image-gc-high-threshold", Integer, "imageGCHighThresholdPercent"),
    field("image-gc-low-threshold", Integer, "imageGCLowThresholdPercent"),
    field("image-service-endpoint", Text, "imageServiceEndpoint"),
    field("kernel-memcg-notification", Bool, "kernelMemcgNotification"),
    field("kube-api-burst", Integer, "kubeAPIBurst"),
    field("kube-api-content-type", Text, "contentType"),
    field("kube-api-qps", Integer, "kubeAPIQPS"),
    field("kube-reserved", Pairs, "kubeReserved"),
    field("kube-reserved-cgroup", Text, "kubeReservedCgroup"),
    own("kubeconfig", Text, ""),
    field("kubelet-cgroups", Text, "kubeletCgroups"),
    field("local-storage-capacity-isolation", Bool, "localStorageCapacityIsolation"),
    own("lock-file", Text, ""),
    ignored("log-cadvisor-usage", Bool),
    lasting("log-flush-frequency", Duration, "logging.flushFrequency"),
    field("log-json-info-buffer-size", Text, "logging.options.json.infoBufferSize"),
    field("log-json-split-stream", Bool, "logging.options.json.splitStream"),
    field("log-text-info-buffer-size", Text, "logging.options.text.infoBufferSize"),
    field("log-text-split-stream", Bool, "logging.options.text.splitStream"),
    field("logging-format", Text, "logging.format"),
    ignored("machine-id-file", Text),
    field("make-iptables-util-chains", Bool, "makeIPTablesUtilChains"),
    field("manifest-url", Text, "staticPodURL"),
    field("manifest-url-header", Headers, "staticPodURLHeader"),
    field("max-open-files", Integer, "maxOpenFiles"),
    field("max-pods", Integer, "maxPods"),
    old("maximum-dead-containers", Integer, "-1", EVICTION),
    old("maximum-dead-containers-per-container", Integer, "1", EVICTION),
    field("memory-manager-policy", Text, "memoryManagerPolicy"),
    old("minimum-container-ttl-duration", Duration, "0s", EVICTION),
    field("minimum-image-ttl-duration", Duration, "imageMinimumGCAge"),
    own("node-ip", Text, ""),
    own("node-labels", Labels, ""),
    field("node-status-max-images", Integer, "nodeStatusMaxImages"),
    field("node-status-update-frequency", Duration, "nodeStatusUpdateFrequency"),
    field("oom-score-adj", Integer, "oomScoreAdj"),
    field("pod-cidr", Text, "podCIDR"),
    field("pod-manifest-path", Text, "staticPodPath"),
    field("pod-max-pids", Integer, "podPidsLimit"),
    field("pods-per-core", Integer, "podsPerCore"),
    field("port", Integer, "port"),
    field("protect-kernel-defaults", Bool, "protectKernelDefaults"),
    lasting("provider-id", Text, "providerID"),
    field("qos-reserved", Pairs, "qosReserved"),
    field("read-only-port", Integer, "readOnlyPort"),
    field("register-node", Bool, "registerNode"),
    field("register-with-taints", Taints, "registerWithTaints"),
    field("registry-burst", Integer, "registryBurst"),
    field("registry-qps", Integer, "registryPullQPS"),
    field("reserved-cpus", Text, "reservedSystemCPUs"),
    field("reserved-memory", ReservedMemory, "reservedMemory"),
    field("resolv-conf", Text, "resolvConf"),
    own("root-dir", Text, "/var/lib/kubelet"),
    field("rotate-certificates", Bool, "rotateCertificates"),
    field("rotate-server-certificates", Bool, "serverTLSBootstrap"),
    field("runonce", Bool, "runOnce"),
    own("runtime-cgroups", Text, ""),
    field("runtime-request-timeout", Duration, "runtimeRequestTimeout"),
    own("seccomp-default", Bool, "false"),
    field("serialize-image-pulls", Bool, "serializeImagePulls"),
    ignored("storage-driver-buffer-duration", Duration),
    ignored("storage-driver-db", Text),
    ignored("storage-driver-host", Text),
    ignored("storage-driver-password", Text),
    ignored("storage-driver-secure", Bool),
    ignored("storage-driver-table", Text),
    ignored("storage-driver-user", Text),
    field("streaming-connection-idle-timeout", Duration, "streamingConnectionIdleTimeout"),
    field("sync-frequency", Duration, "syncFrequency"),
    field("system-cgroups", Text, "systemCgroups"),
    field("system-reserved", Pairs, "systemReserved"),
    field("system-reserved-cgroup", Text, "systemReservedCgroup"),
    field("tls-cert-file", Text, "tlsCertFile"),
    field("tls-cipher-suites", List, "tlsCipherSuites"),
    field("tls-min-version", Text, "tlsMinVersion"),
    field("tls-private-key-file", Text, "tlsPrivateKeyFile"),
    field("topology-manager-policy", Text, "topologyManagerPolicy"),
    field("topology-manager-policy-options", Pairs, "topologyManagerPolicyOptions"),
    field("topology-manager-scope", Text, "topologyManagerScope"),
    lasting("v", Digits, "logging.verbosity"),
    own("version", Syntax::Version, "false"),
    lasting("vmodule", Modules, "logging.vmodule"),
    field("volume-plugin-dir", Text, "volumePluginDir"),
    field("volume-stats-agg-period", Duration, "volumeStatsAggPeriod"),
];

/// Removed flags, and the alternative.
#[rustfmt::skip]
pub(super) const REMOVED: &[(&str, &str)] = &[
    ("cni-bin-dir", "networks are configured in the container runtime"),
    ("cni-cache-dir", "networks are configured in the container runtime"),
    ("cni-conf-dir", "networks are configured in the container runtime"),
    ("container-runtime", "the runtime is found through containerRuntimeEndpoint"),
    ("iptables-drop-bit", "it had no effect"),
    ("iptables-masquerade-bit", "it had no effect"),
    ("keep-terminated-pod-volumes", "volumes of ended pods are always released"),
    ("master-service-namespace", "it had no effect"),
    ("network-plugin", "networks are configured in the container runtime"),
    ("network-plugin-mtu", "networks are configured in the container runtime"),
    ("pod-infra-container-image", "the sandbox image is configured in the container runtime"),
    ("register-schedulable", "use registerWithTaints"),
];
