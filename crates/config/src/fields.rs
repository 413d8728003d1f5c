//! `KubeletConfiguration`: every field, its name in the file and its default.

mod access;
mod eviction;
mod images;
mod observability;
mod pods;
mod resources;

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::quantity::Quantity;

pub use access::{
    AnonymousAuthentication, Authentication, Authorization, AuthorizationMode, TlsVersion,
    WebhookAuthentication, WebhookAuthorization, X509Authentication,
};
pub use eviction::{
    Amount, EvictionSignal, ParseAmountError, Percentage, ShutdownGracePeriodByPodPriority,
    default_hard_eviction,
};
pub use images::ImagePullCredentialsVerificationPolicy;
pub use observability::{
    FlushFrequency, LogFormat, LogOptions, LogOutput, Logging, ModuleVerbosity, Tracing,
};
pub use pods::{
    ChangeDetectionStrategy, CrashLoopBackOff, HairpinMode, Taint, TaintEffect, UserNamespaces,
};
pub use resources::{
    CgroupDriver, CpuManagerPolicy, MemoryLimits, MemoryManagerPolicy, MemoryReservation,
    MemoryReservationPolicy, MemorySwap, NodeAllocatableEnforcement, QosReservedResource,
    ReservedResource, SwapBehavior, TopologyManagerPolicy, TopologyManagerScope,
};

use crate::as_written::AsWritten;
use crate::duration::GoDuration;
use crate::setting::settings;

const fn seconds(seconds: i32) -> GoDuration {
    GoDuration::from_secs(seconds)
}

const fn minutes(minutes: i32) -> GoDuration {
    GoDuration::from_secs(minutes * 60)
}

settings! {
    /// The settings of the agent, complete: every field has its effective value.
    ///
    /// [`Default`] gives the plain defaults of a configuration file; a start without a file has
    /// [others](KubeletConfiguration::without_file).
    pub struct KubeletConfiguration {
        // Pod sources and synchronisation.

        /// File or directory with pod manifests; empty for none.
        static_pod_path: String = "staticPodPath", unset(String::new());
        /// Where to fetch pod manifests over HTTP; empty for none.
        static_pod_url: String = "staticPodURL", unset(String::new());
        /// Headers for the HTTP source; they may hold secrets and are never logged.
        static_pod_url_header: BTreeMap<String, Vec<String>> =
            "staticPodURLHeader", unset(BTreeMap::new());
        /// How often all manifest files are read again.
        file_check_frequency: GoDuration = "fileCheckFrequency", unset(seconds(20));
        /// How often the HTTP source is requested.
        http_check_frequency: GoDuration = "httpCheckFrequency", unset(seconds(20));
        /// How often a pod is synced without an event.
        sync_frequency: GoDuration = "syncFrequency", unset(minutes(1));
        /// No longer supported.
        run_once: bool = "runOnce", unset(false);
        /// Directory of the container logs, one folder per pod.
        pod_logs_dir: String = "podLogsDir", unset("/var/log/pods".into());
        /// The maximum number of pods.
        max_pods: u32 = "maxPods", unset(110);
        /// The maximum number of pods per core, limited by `max_pods`; 0 for no such limit.
        pods_per_core: u32 = "podsPerCore", unset(0);
        /// Address range of the pods, without an API server.
        pod_cidr: String = "podCIDR", unset(String::new());
        /// How changes of config maps and secrets are detected.
        config_map_and_secret_change_detection_strategy: ChangeDetectionStrategy =
            "configMapAndSecretChangeDetectionStrategy", unset(ChangeDetectionStrategy::Watch);
        /// Whether a controller of the cluster attaches volumes instead of this node.
        enable_controller_attach_detach: bool = "enableControllerAttachDetach", absent(true);
        /// Directory of volume plugins of the old kind.
        volume_plugin_dir: String =
            "volumePluginDir", unset("/usr/libexec/kubernetes/kubelet-plugins/volume/exec/".into());
        /// How often volumes are measured; negative turns it off.
        volume_stats_agg_period: GoDuration = "volumeStatsAggPeriod", unset(minutes(1));
        /// Sysctls a pod may set although they are not known to be safe; a `*` ends a prefix.
        allowed_unsafe_sysctls: Vec<String> = "allowedUnsafeSysctls", unset(Vec::new());
        /// Whether containers without a seccomp profile get the one of the runtime.
        seccomp_default: bool = "seccompDefault", absent(false);
        /// Ids for pods with a user namespace.
        user_namespaces: Option<UserNamespaces> = "userNamespaces", absent(None);
        /// The back-off of failing containers.
        crash_loop_back_off: CrashLoopBackOff =
            "crashLoopBackOff", absent(CrashLoopBackOff::default());

        // Server, TLS and access.

        /// Whether the server is started.
        enable_server: bool = "enableServer", absent(true);
        /// Address of the server and of the read-only server.
        address: AsWritten<IpAddr> = "address", unset(AsWritten::known("0.0.0.0"));
        /// Port of the server.
        port: u16 = "port", unset(10_250);
        /// Port without authentication; 0 for none.
        read_only_port: u16 = "readOnlyPort", unset(0);
        /// Port of the health endpoint; 0 for none.
        healthz_port: u16 = "healthzPort", absent(10_248);
        /// Address of the health endpoint, or a name that resolves to it.
        healthz_bind_address: String = "healthzBindAddress", unset("127.0.0.1".into());
        /// Certificate of the server; without a key too, a self-signed pair is generated.
        tls_cert_file: String = "tlsCertFile", unset(String::new());
        /// Key of the server.
        tls_private_key_file: String = "tlsPrivateKeyFile", unset(String::new());
        /// Cipher suites of the server, below TLS 1.3.
        tls_cipher_suites: Vec<String> = "tlsCipherSuites", unset(Vec::new());
        /// Oldest TLS version of the server; none means 1.2.
        tls_min_version: Option<TlsVersion> = "tlsMinVersion", unset(None);
        /// Numbers of the key exchanges to offer, by preference.
        tls_curve_preferences: Vec<i32> = "tlsCurvePreferences", unset(Vec::new());
        /// Whether the client certificate is renewed through the API server.
        rotate_certificates: bool = "rotateCertificates", unset(false);
        /// Whether the server certificate is requested from the API server.
        server_tls_bootstrap: bool = "serverTLSBootstrap", unset(false);
        /// How callers of the server are authenticated.
        authentication: Authentication = "authentication", absent(Authentication::default());
        /// How callers of the server are authorized.
        authorization: Authorization = "authorization", absent(Authorization::default());
        /// Whether logs, exec, attach and port-forward are served.
        enable_debugging_handlers: bool = "enableDebuggingHandlers", absent(true);
        /// Whether profiles include lock contention.
        enable_contention_profiling: bool = "enableContentionProfiling", unset(false);
        /// Whether profiles are served.
        enable_profiling_handler: bool = "enableProfilingHandler", absent(true);
        /// Whether the log verbosity can be set over the server.
        enable_debug_flags_handler: bool = "enableDebugFlagsHandler", absent(true);
        /// Whether the system log directory is served.
        enable_system_log_handler: bool = "enableSystemLogHandler", absent(true);
        /// Whether the logs of services can be requested.
        enable_system_log_query: bool = "enableSystemLogQuery", absent(false);
        /// No effect: the container runtime transports the streams.
        streaming_connection_idle_timeout: GoDuration =
            "streamingConnectionIdleTimeout", unset(minutes(240));
        /// The previous minor version, to show the metrics that it had and this one hides.
        show_hidden_metrics_for_version: String =
            "showHiddenMetricsForVersion", unset(String::new());

        // API server, events and node status.

        /// Content type of requests to the API server.
        content_type: String = "contentType", unset("application/vnd.kubernetes.protobuf".into());
        /// Requests per second to the API server; 0 means 5.
        kube_api_qps: u32 = "kubeAPIQPS", absent(50);
        /// Requests to the API server in one burst.
        kube_api_burst: u32 = "kubeAPIBurst", unset(100);
        /// Events per second; 0 means 5.
        event_record_qps: u32 = "eventRecordQPS", absent(50);
        /// Events in one burst.
        event_burst: u32 = "eventBurst", unset(100);
        /// Whether the agent creates its own node object.
        register_node: bool = "registerNode", absent(true);
        /// Taints of the node object when it is created.
        register_with_taints: Vec<Taint> = "registerWithTaints", unset(Vec::new());
        /// The provider ID of the machine at its cloud.
        provider_id: String = "providerID", unset(String::new());
        /// How often the node status is computed.
        node_status_update_frequency: GoDuration = "nodeStatusUpdateFrequency", unset(seconds(10));
        /// How often the node status is sent although nothing changed.
        node_status_report_frequency: GoDuration = "nodeStatusReportFrequency", unset(minutes(5));
        /// How long the node counts as alive after a renewal.
        node_lease_duration_seconds: u32 = "nodeLeaseDurationSeconds", unset(40);
        /// How many images the node status lists; -1 for all.
        node_status_max_images: i32 = "nodeStatusMaxImages", absent(50);
        /// The DNS domain of the cluster.
        cluster_domain: String = "clusterDomain", unset(String::new());
        /// The DNS servers of the cluster.
        cluster_dns: Vec<String> = "clusterDNS", unset(Vec::new());
        /// The resolv.conf for pods; empty for none.
        resolv_conf: String = "resolvConf", absent("/etc/resolv.conf".into());

        // Container runtime, images and logs.

        /// Socket of the container runtime.
        container_runtime_endpoint: String =
            "containerRuntimeEndpoint", unset("unix:///run/containerd/containerd.sock".into());
        /// Socket of the image service; empty for the one of the container runtime.
        image_service_endpoint: String = "imageServiceEndpoint", unset(String::new());
        /// The timeout of a call to the runtime, except pulls, logs, exec and attach.
        runtime_request_timeout: GoDuration = "runtimeRequestTimeout", unset(minutes(2));
        /// Whether images are pulled one at a time.
        serialize_image_pulls: bool = "serializeImagePulls", absent(true);
        /// How many images are pulled at once; `None` for no limit.
        max_parallel_image_pulls: Option<i32> = "maxParallelImagePulls", absent(None);
        /// Pulls per second; 0 for no limit.
        registry_pull_qps: u32 = "registryPullQPS", absent(5);
        /// Pulls in one burst.
        registry_burst: u32 = "registryBurst", unset(10);
        /// The minimum age of an unused image for removal.
        image_minimum_gc_age: GoDuration = "imageMinimumGCAge", unset(minutes(2));
        /// The maximum age of an unused image; zero for no limit.
        image_maximum_gc_age: GoDuration = "imageMaximumGCAge", unset(GoDuration::ZERO);
        /// The disk usage that starts the removal of images; 100 for never.
        image_gc_high_threshold_percent: u32 = "imageGCHighThresholdPercent", absent(85);
        /// The disk usage down to which images are removed.
        image_gc_low_threshold_percent: u32 = "imageGCLowThresholdPercent", absent(80);
        /// For which images a pod must prove its pull secret; `None` when the feature is off.
        image_pull_credentials_verification_policy: Option<ImagePullCredentialsVerificationPolicy> =
            "imagePullCredentialsVerificationPolicy", unset(None);
        /// Images that need no proof, when the policy says so.
        preloaded_images_verification_allowlist: Vec<String> =
            "preloadedImagesVerificationAllowlist", unset(Vec::new());
        /// Size of a container log at which it is rotated; negative for no limit.
        container_log_max_size: AsWritten<Quantity> =
            "containerLogMaxSize", unset(AsWritten::known("10Mi"));
        /// How many log files a container keeps.
        container_log_max_files: i32 = "containerLogMaxFiles", absent(5);
        /// How many logs are rotated in parallel.
        container_log_max_workers: i32 = "containerLogMaxWorkers", absent(1);
        /// How often the size of logs is checked.
        container_log_monitor_interval: GoDuration =
            "containerLogMonitorInterval", absent(seconds(10));

        // Cgroups, CPU and memory.

        /// The cgroup driver; that of the runtime takes precedence.
        cgroup_driver: CgroupDriver = "cgroupDriver", unset(CgroupDriver::Cgroupfs);
        /// Parent of all pods; empty for the root.
        cgroup_root: String = "cgroupRoot", unset(String::new());
        /// Whether pods are put below one cgroup per quality of service.
        cgroups_per_qos: bool = "cgroupsPerQOS", absent(true);
        /// Whether the agent refuses a host with cgroup v1.
        fail_cgroup_v1: bool = "failCgroupV1", absent(true);
        /// Cgroup of the agent itself; empty to leave it where it is.
        kubelet_cgroups: String = "kubeletCgroups", unset(String::new());
        /// Cgroup for processes that are in none.
        system_cgroups: String = "systemCgroups", unset(String::new());
        /// Which limits are written to cgroups.
        enforce_node_allocatable: Vec<NodeAllocatableEnforcement> =
            "enforceNodeAllocatable", filled(vec![NodeAllocatableEnforcement::Pods]);
        /// Reserved for the system.
        system_reserved: BTreeMap<ReservedResource, AsWritten<Quantity>> =
            "systemReserved", unset(BTreeMap::new());
        /// Reserved for Kubernetes.
        kube_reserved: BTreeMap<ReservedResource, AsWritten<Quantity>> =
            "kubeReserved", unset(BTreeMap::new());
        /// Cgroup of the system's processes.
        system_reserved_cgroup: String = "systemReservedCgroup", unset(String::new());
        /// Cgroup of Kubernetes' own processes.
        kube_reserved_cgroup: String = "kubeReservedCgroup", unset(String::new());
        /// CPUs reserved for the system and Kubernetes, instead of an amount.
        reserved_system_cpus: String = "reservedSystemCPUs", unset(String::new());
        /// Share of a resource reserved for pods of higher quality of service.
        qos_reserved: BTreeMap<QosReservedResource, Percentage> =
            "qosReserved", unset(BTreeMap::new());
        /// Whether CPU limits are enforced.
        cpu_cfs_quota: bool = "cpuCFSQuota", absent(true);
        /// The CFS period of CPU limits.
        cpu_cfs_quota_period: GoDuration =
            "cpuCFSQuotaPeriod", absent(GoDuration::from_millis(100));
        /// Whether containers can have exclusive CPUs.
        cpu_manager_policy: CpuManagerPolicy = "cpuManagerPolicy", unset(CpuManagerPolicy::None);
        /// Options of that policy.
        cpu_manager_policy_options: BTreeMap<String, String> =
            "cpuManagerPolicyOptions", unset(BTreeMap::new());
        /// How often CPU assignments are checked.
        cpu_manager_reconcile_period: GoDuration = "cpuManagerReconcilePeriod", unset(seconds(10));
        /// Whether containers can have the memory of one NUMA node.
        memory_manager_policy: MemoryManagerPolicy =
            "memoryManagerPolicy", unset(MemoryManagerPolicy::None);
        /// Memory reserved per NUMA node.
        reserved_memory: Vec<MemoryReservation> = "reservedMemory", unset(Vec::new());
        /// Share of its limit at which a container's memory is throttled.
        memory_throttling_factor: f64 = "memoryThrottlingFactor", absent(0.9);
        /// Whether requested memory is protected.
        memory_reservation_policy: MemoryReservationPolicy =
            "memoryReservationPolicy", unset(MemoryReservationPolicy::None);
        /// How strictly the resources of a pod are aligned to NUMA nodes.
        topology_manager_policy: TopologyManagerPolicy =
            "topologyManagerPolicy", unset(TopologyManagerPolicy::None);
        /// Whether that applies to each container or to the pod.
        topology_manager_scope: TopologyManagerScope =
            "topologyManagerScope", unset(TopologyManagerScope::Container);
        /// Options of that policy.
        topology_manager_policy_options: BTreeMap<String, String> =
            "topologyManagerPolicyOptions", unset(BTreeMap::new());
        /// How many processes a pod may have; -1 for no limit per pod.
        pod_pids_limit: i64 = "podPidsLimit", absent(-1);
        /// The OOM score adjustment of the agent.
        oom_score_adj: i32 = "oomScoreAdj", absent(-999);
        /// Whether the OOM killer ends one process instead of the whole container; `None` for the default
        /// of the cgroup version.
        single_process_oom_kill: Option<bool> = "singleProcessOOMKill", absent(None);
        /// Whether the agent refuses a host with swap.
        fail_swap_on: bool = "failSwapOn", absent(true);
        /// Who may use swap.
        memory_swap: MemorySwap = "memorySwap", absent(MemorySwap::default());
        /// Whether differing sysctls are an error instead of being set.
        protect_kernel_defaults: bool = "protectKernelDefaults", unset(false);
        /// The limit of open files of the agent.
        max_open_files: i64 = "maxOpenFiles", unset(1_000_000);

        // Eviction, shutdown and the rest.

        /// Thresholds of immediate evictions.
        eviction_hard: BTreeMap<EvictionSignal, Amount> =
            "evictionHard", filled(default_hard_eviction());
        /// Thresholds of evictions after a grace period.
        eviction_soft: BTreeMap<EvictionSignal, Amount> = "evictionSoft", unset(BTreeMap::new());
        /// The grace periods of soft eviction thresholds.
        eviction_soft_grace_period: BTreeMap<EvictionSignal, AsWritten<GoDuration>> =
            "evictionSoftGracePeriod", unset(BTreeMap::new());
        /// The minimum amount that an eviction frees.
        eviction_minimum_reclaim: BTreeMap<EvictionSignal, Amount> =
            "evictionMinimumReclaim", unset(BTreeMap::new());
        /// The minimum duration of a pressure condition of the node.
        eviction_pressure_transition_period: GoDuration =
            "evictionPressureTransitionPeriod", unset(minutes(5));
        /// Cap in seconds for the grace period of softly evicted pods.
        eviction_max_pod_grace_period: i32 = "evictionMaxPodGracePeriod", unset(0);
        /// Whether signals that `eviction_hard` omits keep their default.
        merge_default_eviction_settings: bool = "mergeDefaultEvictionSettings", absent(false);
        /// Whether the kernel notifies about memory thresholds, on cgroup v1.
        kernel_memcg_notification: bool = "kernelMemcgNotification", unset(false);
        /// Whether local disk space is a resource.
        local_storage_capacity_isolation: bool = "localStorageCapacityIsolation", absent(true);
        /// How long a shutdown of the machine waits for pods; zero for not at all.
        shutdown_grace_period: GoDuration = "shutdownGracePeriod", unset(GoDuration::ZERO);
        /// The part of `shutdownGracePeriod` that is reserved for critical pods.
        shutdown_grace_period_critical_pods: GoDuration =
            "shutdownGracePeriodCriticalPods", unset(GoDuration::ZERO);
        /// Grace periods at shutdown by pod priority; replaces the two fields above.
        shutdown_grace_period_by_pod_priority: Vec<ShutdownGracePeriodByPodPriority> =
            "shutdownGracePeriodByPodPriority", unset(Vec::new());
        /// Whether the iptables hint chain is created.
        make_iptables_util_chains: bool = "makeIPTablesUtilChains", absent(true);
        /// No effect.
        iptables_masquerade_bit: i32 = "iptablesMasqueradeBit", absent(14);
        /// No effect.
        iptables_drop_bit: i32 = "iptablesDropBit", absent(15);
        /// No effect.
        hairpin_mode: HairpinMode = "hairpinMode", unset(HairpinMode::PromiscuousBridge);
        /// Feature gates that differ from their default.
        feature_gates: BTreeMap<String, bool> = "featureGates", unset(BTreeMap::new());
        /// Log output.
        logging: Logging = "logging", absent(Logging::default());
        /// Traces; `None` to send none.
        tracing: Option<Tracing> = "tracing", absent(None);
    }
}
