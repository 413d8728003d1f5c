//! The data exchanged on the socket, for both ends.

use std::collections::BTreeMap;

use jiff::Timestamp;
use journal::{Inputs, SearchResult};
use model::probe::ProbeReport;
use serde::{Deserialize, Serialize};

/// The socket's path below the root directory.
pub const SOCKET: &str = "ferrolet/agent.sock";

/// Response of `GET /pods`. `P` is a pod, owned by the reader and borrowed by the writer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PodItems<P> {
    /// The pods.
    pub items: Vec<PodItem<P>>,
    /// Refused manifests.
    #[serde(default)]
    pub refused: Vec<RefusedManifest>,
}

/// A refused manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedManifest {
    /// The file, directory or URL.
    pub manifest: String,
    /// The problem.
    pub message: String,
    /// The namespace and name of its pod, if known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pod: Option<String>,
    /// Whether an earlier version of the manifest is still used.
    pub last_good_stays: bool,
}

/// A pod and its last event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodItem<P> {
    /// The pod with its status.
    pub pod: P,
    /// The last event about it.
    pub last_event: Option<LastEvent>,
    /// The volumes that it waits for.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub waiting_volumes: Vec<WaitingVolume>,
    /// Its probes.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub probes: Vec<ProbeReport>,
}

/// A volume that a pod waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingVolume {
    /// Its name in the pod.
    pub name: String,
    /// Why it is not mounted; `None` during the first attempt.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<String>,
}

/// The last event of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastEvent {
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The reason.
    pub reason: String,
    /// The message.
    pub message: String,
    /// The time.
    pub time: Timestamp,
}

/// One line of `GET /pods?watch=true`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WatchLine<P> {
    /// The kind of change.
    #[serde(rename = "type")]
    pub kind: WatchKind,
    /// The pod; its last state if it is removed.
    #[serde(skip_serializing_if = "Option::is_none", default = "Option::default")]
    pub object: Option<PodItem<P>>,
    /// All refused manifests, with [`WatchKind::Refused`].
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub refused: Vec<RefusedManifest>,
}

/// The kind of a watch line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum WatchKind {
    /// A pod was added.
    Added,
    /// A pod, or its last event, changed.
    Modified,
    /// A pod was removed.
    Deleted,
    /// The set of refused manifests changed.
    Refused,
    /// The initial state is complete.
    Synced,
}

/// Response of `GET /events`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventItems {
    /// The events, latest last.
    pub items: Vec<EventItem>,
}

/// An event of a pod or the node, with the number of its occurrences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventItem {
    /// `Pod` or `Node`.
    #[serde(rename = "kind")]
    pub involved: String,
    /// The pod's namespace and name, or the node's name.
    pub pod: String,
    /// The pod's uid; empty for the node.
    pub pod_uid: String,
    /// The part of the pod; empty for the pod itself.
    pub field_path: String,
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The reason.
    pub reason: String,
    /// The message.
    pub message: String,
    /// The number of occurrences.
    pub count: u64,
    /// Its first occurrence.
    pub first_time: Timestamp,
    /// Its last occurrence.
    pub last_time: Timestamp,
}

/// Response of `GET /version`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// The version of Kubernetes that the agent implements, such as `v1.36.3`.
    pub kubernetes: String,
    /// The version of the agent.
    pub ferrolet: String,
}

/// Response of `GET /gc/why`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyAnswer {
    /// The object of the query.
    pub what: String,
    /// The entries.
    #[serde(flatten)]
    pub found: SearchResult,
}

/// Response of `GET /gc/plan`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GcPlan {
    /// When the plan was made.
    pub generated_at: Timestamp,
    /// The source of the plan.
    pub source: GcSource,
    /// The policy.
    pub policy: Inputs,
    /// All items, removals first in their order.
    pub items: Vec<GcItem>,
    /// The events that the next pass would record for the node.
    #[serde(default)]
    pub warnings: Vec<GcWarning>,
    /// What could not be listed.
    pub problems: Vec<String>,
}

/// An event that a pass would record for the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcWarning {
    /// The reason, such as `FreeDiskSpaceFailed`.
    pub reason: String,
    /// The message.
    pub message: String,
}

/// The source of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GcSource {
    /// The agent.
    Agent,
    /// The container runtime without an agent: pod states are unknown.
    Runtime,
}

/// The fate of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GcVerdict {
    /// It is removed.
    Remove,
    /// It stays.
    Keep,
}

/// An object of garbage collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GcItem {
    /// Its kind: `container`, `sandbox`, `log` or `image`.
    pub kind: String,
    /// Its id or path.
    pub id: String,
    /// The name to display; empty if the item has only an id.
    pub name: String,
    /// Its pod as `NAMESPACE/NAME`, if known.
    pub pod: Option<String>,
    /// The uid of its pod.
    #[serde(default)]
    pub pod_uid: Option<String>,
    /// Its fate.
    pub verdict: GcVerdict,
    /// The rule that decided.
    pub rule: String,
    /// The inputs of the rule.
    pub detail: Inputs,
}

/// Response of `GET /evict/plan`. Amounts are quantities of the API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvictPlan {
    /// When the plan was made.
    pub generated_at: Timestamp,
    /// The disks: `single`, `dedicated-imagefs` or `split`; unknown before the first round.
    pub layout: Option<String>,
    /// The pressure conditions of the node that are true.
    pub conditions: Vec<String>,
    /// The thresholds.
    pub signals: Vec<EvictSignal>,
    /// The orders of eviction.
    pub rankings: Vec<EvictRanking>,
    /// Pods beyond a limit of local storage.
    pub limits: Vec<EvictLimit>,
    /// What could not be found out.
    pub problems: Vec<String>,
}

/// A threshold now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvictSignal {
    /// The signal: `memory.available`.
    pub signal: String,
    /// The amount below which it is met; unknown for a percentage of an unknown capacity.
    pub threshold: Option<String>,
    /// What is available, if it was observed.
    pub available: Option<String>,
    /// The capacity, if it was observed.
    pub capacity: Option<String>,
    /// For how long it must be met before a pod is evicted; none for a hard threshold.
    pub grace_period: Option<String>,
    /// Whether it is met.
    pub met: bool,
    /// For how long it is met.
    pub met_for: Option<String>,
}

/// The order of eviction for some signals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvictRanking {
    /// The resource: `memory`.
    pub resource: String,
    /// The signals.
    pub signals: Vec<String>,
    /// The pods, the one to evict first in front.
    pub pods: Vec<EvictPod>,
}

/// A pod of a ranking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvictPod {
    /// The pod as `NAMESPACE/NAME`.
    pub pod: String,
    /// Its uid.
    pub pod_uid: String,
    /// What it uses, if known.
    pub usage: Option<String>,
    /// What it requests; none for process ids.
    pub request: Option<String>,
    /// Its priority.
    pub priority: i32,
    /// Whether it uses more than it requests.
    pub exceeds_request: bool,
    /// Whether it is critical, and never evicted.
    pub critical: bool,
}

/// A pod beyond a limit of local storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvictLimit {
    /// The pod as `NAMESPACE/NAME`.
    pub pod: String,
    /// The signal: `emptydirfs.limit`.
    pub signal: String,
    /// The volume or container; empty for the pod.
    pub name: String,
    /// What it uses.
    pub usage: String,
    /// The limit.
    pub limit: String,
}

/// One line of `POST /gc/run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "UPPERCASE")]
pub enum GcLine {
    /// An object was removed.
    Removed {
        /// The object.
        item: GcItem,
    },
    /// An object could not be removed.
    Failed {
        /// The object.
        item: GcItem,
        /// The error.
        error: String,
    },
    /// An object was to be removed, and is kept because of later changes.
    Kept {
        /// The object, with the rule that keeps it.
        item: GcItem,
    },
    /// The pass has ended. Always the last line; without it, the agent stopped first.
    Done(GcDone),
}

/// The result of a pass.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GcDone {
    /// The number of removed objects by kind, including those left out.
    pub removed: BTreeMap<String, u64>,
    /// The number of objects that could not be removed by kind, including those left out.
    pub failed: BTreeMap<String, u64>,
    /// The number of planned objects that stay because of later changes by kind, including those left out.
    #[serde(default)]
    pub kept: BTreeMap<String, u64>,
    /// The number of lines left out because the reader was too slow.
    #[serde(default)]
    pub left_out: u64,
    /// The failed parts of the pass.
    pub problems: Vec<String>,
}

/// An error response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The message.
    pub message: String,
}
