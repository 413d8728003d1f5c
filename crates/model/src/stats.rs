//! Resource usage of the node and its pods, in the format of the Summary API (`/stats/summary`).
//!
//! A value that could not be measured is absent, never zero.

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};

use crate::ids::{PodName, PodUid};

/// The usage of the node and of its pods.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The node.
    pub node: NodeStats,
    /// The pods with a running container.
    pub pods: Vec<PodStats>,
}

/// The usage of the node.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStats {
    /// The name of the node.
    pub node_name: String,
    /// Groups of system processes: `kubelet`, `runtime`, `misc`, `pods`. `pods` is the cgroup of all pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub system_containers: Vec<ContainerStats>,
    /// The boot of the machine.
    #[serde(serialize_with = "seconds_or_null")]
    pub start_time: Option<Timestamp>,
    /// CPU of the whole machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuStats>,
    /// Memory of the whole machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryStats>,
    /// Pressure of disk I/O.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io: Option<IoStats>,
    /// The network of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkStats>,
    /// The file system of the root directory (`nodefs`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fs: Option<FsStats>,
    /// The file systems of the container runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<RuntimeFsStats>,
    /// Processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rlimit: Option<RlimitStats>,
    /// Swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<SwapStats>,
}

/// The file systems of the container runtime.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeFsStats {
    /// The file system of images; `used_bytes` is what the images use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_fs: Option<FsStats>,
    /// The file system of writable layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_fs: Option<FsStats>,
}

/// The processes of the machine and their limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RlimitStats {
    /// When they were counted.
    #[serde(serialize_with = "seconds")]
    pub time: Timestamp,
    /// The largest number of processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maxpid: Option<i64>,
    /// Their number.
    #[serde(rename = "curproc", skip_serializing_if = "Option::is_none")]
    pub running: Option<i64>,
}

/// Identifies a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PodReference {
    /// The name and namespace.
    #[serde(flatten, serialize_with = "name_and_namespace")]
    pub name: PodName,
    /// The UID.
    #[serde(serialize_with = "text")]
    pub uid: PodUid,
}

/// The usage of a pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStats {
    /// The pod.
    pub pod_ref: PodReference,
    /// The start of its sandbox.
    #[serde(serialize_with = "seconds_or_null")]
    pub start_time: Option<Timestamp>,
    /// Its containers.
    pub containers: Vec<ContainerStats>,
    /// CPU of the pod's cgroup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuStats>,
    /// Memory of the pod's cgroup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryStats>,
    /// Pressure of disk I/O.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io: Option<IoStats>,
    /// The network of the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkStats>,
    /// Its volumes.
    #[serde(rename = "volume", skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeStats>,
    /// All that counts as ephemeral storage: writable layers, logs, local volumes, managed files.
    #[serde(rename = "ephemeral-storage", skip_serializing_if = "Option::is_none")]
    pub ephemeral_storage: Option<FsStats>,
    /// Its processes.
    #[serde(rename = "process_stats", skip_serializing_if = "Option::is_none")]
    pub processes: Option<ProcessStats>,
    /// Swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<SwapStats>,
}

/// The processes of a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ProcessStats {
    /// Their number.
    #[serde(rename = "process_count", skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// The usage of a container.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStats {
    /// The name.
    pub name: String,
    /// When it was started.
    #[serde(serialize_with = "seconds_or_null")]
    pub start_time: Option<Timestamp>,
    /// CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuStats>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryStats>,
    /// Pressure of disk I/O.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io: Option<IoStats>,
    /// The writable layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rootfs: Option<FsStats>,
    /// The log files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logs: Option<FsStats>,
    /// Swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<SwapStats>,
}

/// Use of CPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CpuStats {
    /// When it was measured.
    #[serde(serialize_with = "seconds")]
    pub time: Timestamp,
    /// The rate since an earlier sample, in billionths of a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_nano_cores: Option<u64>,
    /// The time used since the creation, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_core_nano_seconds: Option<u64>,
    /// Pressure stall information.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psi: Option<PsiStats>,
}

/// Use of memory, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryStats {
    /// When it was measured.
    #[serde(serialize_with = "seconds")]
    pub time: Timestamp,
    /// The limit less the working set; absent without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_bytes: Option<u64>,
    /// All memory, with caches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_bytes: Option<u64>,
    /// Usage without inactive file pages, which the kernel can reclaim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_set_bytes: Option<u64>,
    /// Anonymous memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<u64>,
    /// Page faults since the creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_faults: Option<u64>,
    /// Page faults that read from disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub major_page_faults: Option<u64>,
    /// Pressure stall information.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psi: Option<PsiStats>,
}

/// Pressure of disk I/O.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct IoStats {
    /// When it was measured.
    #[serde(serialize_with = "seconds")]
    pub time: Timestamp,
    /// Pressure stall information.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psi: Option<PsiStats>,
}

/// Pressure stall information of a resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PsiStats {
    /// All tasks waited.
    pub full: PsiShare,
    /// At least one task waited.
    pub some: PsiShare,
}

/// How long tasks waited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PsiShare {
    /// Microseconds since the creation, as in the kernel's file and as upstream reports them.
    pub total: u64,
    /// Percentage of the last 10 s.
    pub avg10: f64,
    /// Percentage of the last minute.
    pub avg60: f64,
    /// Percentage of the last 5 min.
    pub avg300: f64,
}

/// Use of swap, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SwapStats {
    /// When it was measured.
    #[serde(serialize_with = "seconds")]
    pub time: Timestamp,
    /// The limit less the usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_available_bytes: Option<u64>,
    /// The usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_usage_bytes: Option<u64>,
}

/// Traffic of a network interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InterfaceStats {
    /// The name: `eth0`.
    pub name: String,
    /// Bytes received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rx_bytes: Option<u64>,
    /// Receive errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rx_errors: Option<u64>,
    /// Bytes sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_bytes: Option<u64>,
    /// Send errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_errors: Option<u64>,
}

/// Traffic of a network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NetworkStats {
    /// When it was measured.
    #[serde(serialize_with = "seconds")]
    pub time: Timestamp,
    /// The default interface, `eth0`.
    #[serde(flatten)]
    pub default: InterfaceStats,
    /// All interfaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceStats>,
}

/// Use of a file system, or of a part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FsStats {
    /// When it was measured.
    #[serde(serialize_with = "seconds")]
    pub time: Timestamp,
    /// Free bytes of the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_bytes: Option<u64>,
    /// Size of the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// Bytes that the described part uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// Free inodes of the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes_free: Option<u64>,
    /// All inodes of the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes: Option<u64>,
    /// Inodes that the described part uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes_used: Option<u64>,
}

/// Use of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeStats {
    /// Its size and usage.
    #[serde(flatten)]
    pub fs: FsStats,
    /// The name of the volume in the pod.
    pub name: String,
    /// The claim, for a persistent volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc_ref: Option<ClaimReference>,
}

/// Identifies a persistent volume claim.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClaimReference {
    /// The name.
    pub name: String,
    /// The namespace.
    pub namespace: String,
}

/// A time as upstream writes it: RFC 3339 with whole seconds.
fn seconds<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Timestamp::from_second(time.as_second()).unwrap_or(*time))
}

/// A time, or `null` if it is not known.
fn seconds_or_null<S: Serializer>(
    time: &Option<Timestamp>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => seconds(time, serializer),
        None => serializer.serialize_none(),
    }
}

fn text<S: Serializer>(id: &PodUid, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(id.as_str())
}

fn name_and_namespace<S: Serializer>(name: &PodName, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Fields<'a> {
        name: &'a str,
        namespace: &'a str,
    }
    Fields { name: &name.name, namespace: &name.namespace }.serialize(serializer)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn written(value: &impl Serialize) -> serde_json::Value {
        serde_json::to_value(value).unwrap()
    }

    #[test]
    fn pod_has_the_field_names_of_the_summary_api() {
        let pod = PodStats {
            pod_ref: PodReference { name: PodName::new("shop", "web"), uid: "u1".into() },
            start_time: Some(at("2026-11-19T10:00:00.7Z")),
            containers: vec![ContainerStats { name: "main".to_owned(), ..Default::default() }],
            cpu: None,
            memory: Some(MemoryStats {
                time: at("2026-11-19T10:00:05Z"),
                working_set_bytes: Some(7),
                ..MemoryStats::default()
            }),
            io: None,
            network: Some(NetworkStats {
                time: at("2026-11-19T10:00:05Z"),
                default: InterfaceStats {
                    name: "eth0".to_owned(),
                    rx_bytes: Some(1),
                    ..InterfaceStats::default()
                },
                interfaces: Vec::new(),
            }),
            volumes: vec![VolumeStats {
                fs: FsStats { used_bytes: Some(3), ..FsStats::default() },
                name: "data".to_owned(),
                pvc_ref: Some(ClaimReference {
                    name: "claim".to_owned(),
                    namespace: "shop".to_owned(),
                }),
            }],
            ephemeral_storage: Some(FsStats::default()),
            processes: Some(ProcessStats { count: Some(2) }),
            swap: None,
        };
        let epoch = "1970-01-01T00:00:00Z";
        let expected = json!({
            "podRef": { "name": "web", "namespace": "shop", "uid": "u1" },
            "startTime": "2026-11-19T10:00:00Z",
            "containers": [{ "name": "main", "startTime": null }],
            "memory": { "time": "2026-11-19T10:00:05Z", "workingSetBytes": 7 },
            "network": { "time": "2026-11-19T10:00:05Z", "name": "eth0", "rxBytes": 1 },
            "volume": [{
                "time": epoch,
                "usedBytes": 3,
                "name": "data",
                "pvcRef": { "name": "claim", "namespace": "shop" },
            }],
            "ephemeral-storage": { "time": epoch },
            "process_stats": { "process_count": 2 },
        });
        assert_eq!(written(&pod), expected);
    }

    #[test]
    fn node_has_the_field_names_of_the_summary_api() {
        let share = PsiShare { total: 9, avg10: 0.5, avg60: 0.0, avg300: 0.0 };
        let psi = PsiStats { full: PsiShare::default(), some: share };
        let node = NodeStats {
            node_name: "n1".to_owned(),
            rlimit: Some(RlimitStats { maxpid: Some(9), running: Some(4), ..Default::default() }),
            runtime: Some(RuntimeFsStats {
                image_fs: Some(FsStats::default()),
                container_fs: None,
            }),
            io: Some(IoStats { psi: Some(psi), ..IoStats::default() }),
            swap: Some(SwapStats { swap_usage_bytes: Some(0), ..SwapStats::default() }),
            ..NodeStats::default()
        };
        let none = json!({ "total": 0, "avg10": 0.0, "avg60": 0.0, "avg300": 0.0 });
        let epoch = "1970-01-01T00:00:00Z";
        let some = json!({ "total": 9, "avg10": 0.5, "avg60": 0.0, "avg300": 0.0 });
        let expected = json!({
            "nodeName": "n1",
            "startTime": null,
            "io": { "time": epoch, "psi": { "full": none, "some": some } },
            "runtime": { "imageFs": { "time": epoch } },
            "rlimit": { "time": epoch, "maxpid": 9, "curproc": 4 },
            "swap": { "time": epoch, "swapUsageBytes": 0 },
        });
        assert_eq!(written(&node), expected);
    }
}
