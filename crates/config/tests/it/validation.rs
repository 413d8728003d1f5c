//! One row per rule: what is refused, with which error, and what is just valid.

use config::{CgroupVersion, SwapBehavior, Warning, validate_cgroup_version};

use crate::{configured, errors, loaded};

/// Each row must be refused with exactly these errors.
fn refused(rows: &[(&str, &[&str])]) {
    for (fields, expected) in rows {
        let found: Vec<String> = errors(fields).iter().map(ToString::to_string).collect();
        assert_eq!(found, *expected, "{fields}");
    }
}

/// Each row must be accepted.
fn accepted(rows: &[&str]) {
    for fields in rows {
        configured(fields);
    }
}

#[test]
fn pod_values_are_validated() {
    let restart = "crashLoopBackOff.maxContainerRestartPeriod";
    refused(&[
        ("runOnce: true", &["runOnce: run-once mode no longer exists"]),
        (
            "podLogsDir: /var/log/../pods",
            &["podLogsDir: must have no '.', '..', doubled or trailing slash"],
        ),
        ("podLogsDir: /pods/", &["podLogsDir: must have no '.', '..', doubled or trailing slash"]),
        ("podLogsDir: /p\u{e4}ds", &["podLogsDir: must have ASCII characters only"]),
        ("userNamespaces: {idsPerPod: 0}", &["userNamespaces.idsPerPod: must be at least 65536"]),
        (
            "userNamespaces: {idsPerPod: 65537}",
            &["userNamespaces.idsPerPod: must be a multiple of 65536"],
        ),
        (
            "userNamespaces: {idsPerPod: 4294967296}",
            &["userNamespaces.idsPerPod: must be at most 4294967295"],
        ),
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: 301s}",
            &[&format!("{restart}: must be from 1s to 300s, got 5m1s")],
        ),
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: 0s}",
            &[&format!("{restart}: must be from 1s to 300s, got 0s")],
        ),
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: 10s}\n\
             featureGates: {KubeletCrashLoopBackOffMax: false}",
            &[&format!("{restart}: needs feature gate KubeletCrashLoopBackOffMax")],
        ),
        (
            "allowedUnsafeSysctls: [kernel.panic, \"net.*\", \"Net.x\"]",
            &[
                "allowedUnsafeSysctls[0]: \"kernel.panic\" is not known to belong to a namespace",
                "allowedUnsafeSysctls[2]: \"Net.x\" is not the name of a sysctl, or a prefix that \
                 ends in '*'",
            ],
        ),
        ("iptablesMasqueradeBit: 32", &["iptablesMasqueradeBit: must be from 0 to 31"]),
        ("iptablesDropBit: -1", &["iptablesDropBit: must be from 0 to 31"]),
    ]);
    accepted(&[
        "podLogsDir: /pods",
        "userNamespaces: {idsPerPod: 131072}",
        "crashLoopBackOff: {maxContainerRestartPeriod: 1s}",
        "crashLoopBackOff: {maxContainerRestartPeriod: 300s}",
        "allowedUnsafeSysctls: [\"kernel.msg*\", kernel.sem, \"net.ipv4.*\", net/ipv4/tcp_syncookies, fs.mqueue.msg_max]",
        "registerWithTaints: [{key: example.com/a, value: b, effect: NoExecute}, {key: a}]",
    ]);
}

#[test]
fn taints_are_validated() {
    refused(&[(
        "registerWithTaints: [{key: a b}, {key: a, value: \"-\", timeAdded: now}]",
        &[
            "registerWithTaints[0].key: name part must consist of alphanumeric characters, \
                 '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
                 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                 '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            "registerWithTaints[1].value: a valid label must be an empty string or consist of \
                 alphanumeric characters, '-', '_' or '.', and must start and end with an \
                 alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
                 for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
            "registerWithTaints[1].timeAdded: must not be set",
        ],
    )]);
}

#[test]
fn server_values_are_validated() {
    refused(&[
        (
            "serverTLSBootstrap: true\nfeatureGates: {RotateKubeletServerCertificate: false}",
            &["serverTLSBootstrap: needs feature gate RotateKubeletServerCertificate"],
        ),
        (
            "tlsCipherSuites: [TLS_AES_128_GCM_SHA256, NONE]",
            &["tlsCipherSuites[1]: no cipher suite is called \"NONE\""],
        ),
        (
            "tlsCurvePreferences: [29, 0, 29]",
            &[
                "tlsCurvePreferences[1]: must be from 1 to 65535",
                "tlsCurvePreferences[2]: 29 is listed twice",
            ],
        ),
        (
            "enableSystemLogQuery: true\nenableSystemLogHandler: false",
            &["enableSystemLogHandler: must be true for enableSystemLogQuery"],
        ),
        (
            "showHiddenMetricsForVersion: \"1.34\"",
            &["showHiddenMetricsForVersion: must be empty or 1.35, the previous minor version"],
        ),
    ]);
    accepted(&[
        "tlsMinVersion: VersionTLS13",
        "enableSystemLogQuery: true",
        "showHiddenMetricsForVersion: \"1.35\"",
        "readOnlyPort: 65535",
    ]);
}

#[test]
fn node_values_are_validated() {
    refused(&[("nodeStatusMaxImages: -2", &["nodeStatusMaxImages: must be -1 or greater"])]);
    accepted(&["nodeStatusMaxImages: -1"]);
}

// behaviour: IMG-30
#[test]
fn image_and_log_values_are_validated() {
    let low = "imageGCLowThresholdPercent";
    refused(&[
        ("maxParallelImagePulls: 0", &["maxParallelImagePulls: must be at least 1"]),
        (
            "maxParallelImagePulls: 2\nserializeImagePulls: true",
            &["maxParallelImagePulls: must not exceed 1 unless serializeImagePulls is false"],
        ),
        (
            "imageGCHighThresholdPercent: 101",
            &["imageGCHighThresholdPercent: must be from 0 to 100"],
        ),
        (
            "imageGCHighThresholdPercent: -1\nimageGCLowThresholdPercent: -1",
            &[
                "imageGCHighThresholdPercent: expected an integer from 0 to 2147483647, found the \
                 number -1",
                &format!("{low}: expected an integer from 0 to 2147483647, found the number -1"),
            ],
        ),
        (
            "imageGCHighThresholdPercent: 80",
            &[&format!(
                "{low}: must be less than imageGCHighThresholdPercent, but 80 is not less than 80"
            )],
        ),
        (
            "imageGCLowThresholdPercent: 200",
            &[
                &format!("{low}: must be from 0 to 100"),
                &format!(
                    "{low}: must be less than imageGCHighThresholdPercent, but 200 is not less \
                     than 85"
                ),
            ],
        ),
        ("imageMinimumGCAge: -1s", &["imageMinimumGCAge: must not be negative"]),
        ("imageMaximumGCAge: -1s", &["imageMaximumGCAge: must not be negative"]),
        (
            "imageMaximumGCAge: 2m",
            &["imageMaximumGCAge: must be 0s or greater than imageMinimumGCAge, which is 2m0s"],
        ),
        (
            "containerLogMaxSize: 100m",
            &["containerLogMaxSize: must be a whole number of bytes, written without a decimal \
                 point or a fine unit"],
        ),
        ("containerLogMaxFiles: 1", &["containerLogMaxFiles: must be greater than 1"]),
        ("containerLogMaxWorkers: 0", &["containerLogMaxWorkers: must be at least 1"]),
        ("containerLogMonitorInterval: 2s", &["containerLogMonitorInterval: must be at least 3s"]),
    ]);
    accepted(&[
        "imageGCHighThresholdPercent: 100",
        "imageMaximumGCAge: 2m1s",
        "containerLogMaxSize: \"-1\"",
        "containerLogMaxSize: 1.5k",
        "containerLogMonitorInterval: 3s",
    ]);
}

#[test]
fn pull_secret_values_are_validated() {
    let policy = "imagePullCredentialsVerificationPolicy";
    let list = "preloadedImagesVerificationAllowlist";
    let gate = "featureGates: {KubeletEnsureSecretPulledImages: false}";
    let allow = format!("{policy}: NeverVerifyAllowlistedImages");
    refused(&[
        (
            &format!("{list}: [a.io/b]"),
            &[&format!("{list}: needs {policy} NeverVerifyAllowlistedImages")],
        ),
        (
            &format!("{gate}\n{policy}: NeverVerify\n{list}: [a]"),
            &[
                &format!("{policy}: needs feature gate KubeletEnsureSecretPulledImages"),
                &format!("{list}: needs feature gate KubeletEnsureSecretPulledImages"),
            ],
        ),
        (
            &format!(
                "{allow}\n{list}: [\" a\", \"/*\", \"*\", a*/b, a:1, \"a@sha256:0\", Foo, a/B]"
            ),
            &[
                &format!("{list}[0]: \" a\" has spaces at its ends"),
                &format!("{list}[1]: \"/*\" names no registry"),
                &format!("{list}[2]: \"*\" may have a wildcard as its last part only"),
                &format!("{list}[3]: \"a*/b\" may have a wildcard as its last part only"),
                &format!("{list}[4]: \"a:1\" must have no tag and no digest"),
                &format!("{list}[5]: \"a@sha256:0\" must have no tag and no digest"),
                &format!("{list}[6]: \"Foo\" is not the name of an image"),
                &format!("{list}[7]: \"a/B\" is not the name of an image"),
            ],
        ),
    ]);
    accepted(&[
        gate,
        &format!("{allow}\n{list}: [a, a.io/b, \"a.io:5000/b\", \"a.io/*\", \"a.io/b/*\"]"),
    ]);
}

#[test]
fn cgroup_values_are_validated() {
    let enforce = "enforceNodeAllocatable";
    refused(&[
        ("systemCgroups: /system", &["systemCgroups: needs cgroupRoot"]),
        ("systemCgroups: /\ncgroupRoot: /", &["systemCgroups: must not be the root cgroup"]),
        (
            "cgroupsPerQOS: false",
            &[&format!("cgroupsPerQOS: must be true when pods is in {enforce}")],
        ),
        ("enforceNodeAllocatable: [none, pods]", &[&format!("{enforce}: none must stand alone")]),
        ("enforceNodeAllocatable: [pods, pods]", &[&format!("{enforce}: pods is listed twice")]),
        (
            "enforceNodeAllocatable: [system-reserved, kube-reserved-compressible]",
            &[
                &format!("systemReservedCgroup: must be set when system-reserved is in {enforce}"),
                &format!(
                    "kubeReservedCgroup: must be set when kube-reserved-compressible is in {enforce}"
                ),
            ],
        ),
        (
            "enforceNodeAllocatable: [kube-reserved, kube-reserved-compressible]\n\
             kubeReservedCgroup: /kube",
            &[&format!(
                "{enforce}: kube-reserved and kube-reserved-compressible exclude each other"
            )],
        ),
    ]);
    accepted(&[
        "systemCgroups: /system\ncgroupRoot: /",
        "cgroupsPerQOS: false\nenforceNodeAllocatable: [none]",
        "cgroupsPerQOS: false\nenforceNodeAllocatable: []",
        "enforceNodeAllocatable: [pods, kube-reserved]\nkubeReservedCgroup: /kube",
    ]);
}

#[test]
fn reservation_values_are_validated() {
    refused(&[
        ("systemReserved: {cpu: -1m}", &["systemReserved.cpu: must not be negative"]),
        ("kubeReserved: {pid: \"-1\"}", &["kubeReserved.pid: must not be negative"]),
        (
            "reservedSystemCPUs: 0-3\nkubeReservedCgroup: /kube",
            &["reservedSystemCPUs: cannot be used with systemReservedCgroup or kubeReservedCgroup"],
        ),
        (
            "reservedSystemCPUs: 3-0",
            &["reservedSystemCPUs: \"3-0\" is not a list of CPUs such as 0-3,8"],
        ),
        (
            "reservedMemory: [{numaNode: 0, limits: {cpu: 1, memory: 0}}]",
            &[
                "reservedMemory[0].limits.cpu: must be memory or hugepages-<size>",
                "reservedMemory[0].limits.memory: must not be zero",
            ],
        ),
        (
            "reservedMemory: [{numaNode: 1, limits: {memory: 1Gi}}, {numaNode: 1, limits: {memory: 1Gi}}]",
            &["reservedMemory[1].limits.memory: is given twice for NUMA node 1"],
        ),
        (
            "qosReserved: {memory: 101%}",
            &["qosReserved.memory: must be a whole percentage from 0% to 100%"],
        ),
    ]);
    accepted(&[
        "systemReserved: {cpu: 500m, memory: 1Gi, ephemeral-storage: 1Gi, pid: \"100\"}",
        "reservedSystemCPUs: 0-3,8",
        "reservedMemory: [{numaNode: 0, limits: {memory: 1024, hugepages-2Mi: 2Mi}}]",
        "qosReserved: {memory: 50%}",
    ]);
}

#[test]
fn cpu_memory_and_topology_values_are_validated() {
    refused(&[
        ("cpuCFSQuotaPeriod: 0s", &["cpuCFSQuotaPeriod: must be from 1ms to 1s, got 0s"]),
        ("cpuCFSQuotaPeriod: 1.1s", &["cpuCFSQuotaPeriod: must be from 1ms to 1s, got 1.1s"]),
        (
            "cpuCFSQuotaPeriod: 5ms\nfeatureGates: {CustomCPUCFSQuotaPeriod: false}",
            &["cpuCFSQuotaPeriod: must be 100ms unless feature gate CustomCPUCFSQuotaPeriod is \
               on, got 5ms"],
        ),
        (
            "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\ncpuManagerPolicyOptions: {fast: \"true\", full-pcpus-only: maybe, align-by-socket: \"true\"}",
            &[
                "cpuManagerPolicyOptions.align-by-socket: needs feature gate \
                 CPUManagerPolicyAlphaOptions",
                "cpuManagerPolicyOptions.fast: no such option of the CPU policy",
                "cpuManagerPolicyOptions.full-pcpus-only: must be \"true\" or \"false\"",
            ],
        ),
        (
            "cpuManagerPolicyOptions: {full-pcpus-only: \"true\"}",
            &["cpuManagerPolicyOptions: needs cpuManagerPolicy static"],
        ),
        (
            "topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: {max-allowable-numa-nodes: \"7\", near: \"true\", prefer-closest-numa-nodes: x}",
            &[
                "topologyManagerPolicyOptions.max-allowable-numa-nodes: must be at least 8",
                "topologyManagerPolicyOptions.near: no such option of the topology policy",
                "topologyManagerPolicyOptions.prefer-closest-numa-nodes: must be \"true\" or \
                 \"false\"",
            ],
        ),
        (
            "memoryThrottlingFactor: 0",
            &["memoryThrottlingFactor: must be greater than 0 and at most 1, got 0"],
        ),
        (
            "memoryThrottlingFactor: 1.5",
            &["memoryThrottlingFactor: must be greater than 0 and at most 1, got 1.5"],
        ),
        (
            "memoryReservationPolicy: TieredReservation",
            &["memoryReservationPolicy: needs feature gate MemoryQoS"],
        ),
        ("oomScoreAdj: -1001", &["oomScoreAdj: must be from -1000 to 1000"]),
        ("maxOpenFiles: -1", &["maxOpenFiles: must not be negative"]),
    ]);
    accepted(&[
        "cpuCFSQuotaPeriod: 1ms",
        "cpuCFSQuotaPeriod: 1s",
        "cpuManagerPolicy: static\nkubeReserved: {cpu: 100m}\ncpuManagerPolicyOptions: {full-pcpus-only: \"true\", distribute-cpus-across-numa: \"1\"}",
        "topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: {max-allowable-numa-nodes: \"8\"}",
        "topologyManagerPolicyOptions: {unused: reads}",
        "memoryThrottlingFactor: 1",
        "memoryReservationPolicy: TieredReservation\nfeatureGates: {MemoryQoS: true}",
        "oomScoreAdj: 1000",
    ]);
}

#[test]
fn eviction_values_are_validated() {
    refused(&[
        (
            "evictionHard: {memory.available: \"0\"}",
            &["evictionHard[memory.available]: must be more than zero"],
        ),
        (
            "evictionHard: {nodefs.available: 101%}",
            &["evictionHard[nodefs.available]: must be from 0% to 100%"],
        ),
        (
            "evictionSoft: {memory.available: 1Gi}",
            &["evictionSoftGracePeriod[memory.available]: must be set, since evictionSoft has a \
               threshold for it"],
        ),
        (
            "evictionSoftGracePeriod: {memory.available: -1s}",
            &["evictionSoftGracePeriod[memory.available]: must not be negative"],
        ),
        (
            "evictionMinimumReclaim: {memory.available: -1Gi, nodefs.available: 0%}",
            &[
                "evictionMinimumReclaim[memory.available]: must not be negative",
                "evictionMinimumReclaim[nodefs.available]: must be more than 0%",
            ],
        ),
    ]);
    accepted(&[
        "evictionHard: {memory.available: 0%, nodefs.available: 100%, imagefs.available: 7.5%}",
        "evictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: 30s}",
        "evictionSoft: {memory.available: 0%}",
        "evictionMinimumReclaim: {memory.available: \"0\"}",
    ]);
}

#[test]
fn shutdown_values_are_validated() {
    let by_priority =
        "shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 9}]";
    let off = "featureGates: {GracefulNodeShutdown: false, \
               GracefulNodeShutdownBasedOnPodPriority: false, WindowsGracefulNodeShutdown: false}";
    refused(&[
        (
            "shutdownGracePeriod: 500ms",
            &["shutdownGracePeriod: must be 0s or at least 1s, got 500ms"],
        ),
        (
            "shutdownGracePeriod: 10s\nshutdownGracePeriodCriticalPods: 11s",
            &["shutdownGracePeriodCriticalPods: must not exceed shutdownGracePeriod, which is 10s"],
        ),
        (
            &format!("shutdownGracePeriod: 10s\n{by_priority}"),
            &["shutdownGracePeriodByPodPriority: cannot be used with shutdownGracePeriod or \
               shutdownGracePeriodCriticalPods"],
        ),
        (
            &format!("shutdownGracePeriod: 10s\n{off}"),
            &["shutdownGracePeriod: needs feature gate GracefulNodeShutdown"],
        ),
        (
            &format!("{by_priority}\n{off}"),
            &["shutdownGracePeriodByPodPriority: needs feature gate \
               GracefulNodeShutdownBasedOnPodPriority"],
        ),
    ]);
    accepted(&["shutdownGracePeriod: 10s\nshutdownGracePeriodCriticalPods: 10s", by_priority, off]);
}

#[test]
fn logging_and_tracing_values_are_validated() {
    refused(&[
        ("logging: {flushFrequency: -1s}", &["logging.flushFrequency: must be more than zero"]),
        (
            "logging: {format: json, vmodule: [{filePattern: a, verbosity: 1}]}",
            &["logging.vmodule: works with format text alone"],
        ),
        (
            "logging: {vmodule: [{filePattern: \"\", verbosity: 1}, {filePattern: a=b, verbosity: 1}]}",
            &[
                "logging.vmodule[0].filePattern: must not be empty",
                "logging.vmodule[1].filePattern: must have no equals sign and no comma",
            ],
        ),
        (
            "logging: {options: {text: {splitStream: true}, json: {infoBufferSize: 1Ki}}}",
            &["logging.options.json.infoBufferSize: needs feature gate LoggingAlphaOptions"],
        ),
        (
            "tracing: {samplingRatePerMillion: 1000001}",
            &["tracing.samplingRatePerMillion: must be from 0 to 1000000"],
        ),
        (
            "tracing: {endpoint: \"http://localhost\"}",
            &["tracing.endpoint: must have no scheme, or dns, unix or unix-abstract"],
        ),
    ]);
    accepted(&[
        "logging: {format: json, verbosity: 4}",
        "logging: {options: {text: {infoBufferSize: 1Ki}}}\nfeatureGates: {LoggingAlphaOptions: true}",
        "tracing: {}",
        "tracing: {endpoint: \"localhost:4317\", samplingRatePerMillion: 1000000}",
        "tracing: {endpoint: \"unix:///run/otel.sock\"}",
    ]);
}

// behaviour: CFG-51
#[test]
fn questionable_values_are_accepted_with_a_warning() {
    for (fields, field) in [
        ("tlsCipherSuites: [TLS_RSA_WITH_RC4_128_SHA]", "tlsCipherSuites[0]"),
        ("clusterDNS: [10.0.0.10, dns.local]", "clusterDNS[1]"),
        ("kubeReservedCgroup: kube", "kubeReservedCgroup"),
        ("logging: {options: {text: {splitStream: true}}}", "logging.options.text.splitStream"),
        ("kubeReservedCgroup: /kube\nkubeletCgroups: /other", "kubeletCgroups"),
        ("featureGates: {NodeSwap: true}", "featureGates.NodeSwap"),
    ] {
        let warnings = loaded(fields).warnings;
        assert!(
            matches!(&warnings[..], [Warning::Doubtful { field: named, .. }] if named == field),
            "{fields}: {warnings:?}"
        );
    }
}

// behaviour: CFG-70
#[test]
fn cgroup_version_restricts_three_fields() {
    let problems = |fields: &str, version| {
        let errors = validate_cgroup_version(&configured(fields), version);
        errors.into_iter().map(|error| error.field).collect::<Vec<_>>()
    };
    let none: [String; 0] = [];
    assert_eq!(problems("", CgroupVersion::V2), none);
    assert_eq!(problems("", CgroupVersion::V1), ["failCgroupV1"]);
    assert_eq!(problems("failCgroupV1: false", CgroupVersion::V1), none);
    assert_eq!(
        problems(
            "failCgroupV1: false\nsingleProcessOOMKill: false\n\
             memorySwap: {swapBehavior: LimitedSwap}",
            CgroupVersion::V1
        ),
        ["singleProcessOOMKill", "memorySwap.swapBehavior"]
    );
    let swap = configured("memorySwap: {swapBehavior: LimitedSwap}").memory_swap;
    assert_eq!(swap.swap_behavior, Some(SwapBehavior::LimitedSwap));
}
