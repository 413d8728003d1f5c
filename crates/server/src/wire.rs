//! What goes over the socket, for both ends.

use std::collections::BTreeMap;

use jiff::Timestamp;
use journal::{Found, Inputs};
use model::probe::ProbeReport;
use serde::{Deserialize, Serialize};

/// The socket's path below the root directory.
pub const SOCKET: &str = "ferrolet/agent.sock";

/// Answer of `GET /pods`. `P` is a pod, owned by who reads it and borrowed by who writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PodItems<P> {
    /// The pods.
    pub items: Vec<PodItem<P>>,
    /// Manifests that do not have their way.
    #[serde(default)]
    pub refused: Vec<RefusedManifest>,
}

/// A manifest that does not have its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedManifest {
    /// The file, directory or URL.
    pub manifest: String,
    /// What is wrong with it.
    pub message: String,
    /// The namespace and name of the pod that is meant, if that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pod: Option<String>,
    /// Whether an earlier version of the manifest stays in force.
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
    /// Why it is not mounted; none while the first attempt runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<String>,
}

/// The last event of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastEvent {
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub kind: String,
    /// In a word.
    pub reason: String,
    /// In a sentence.
    pub message: String,
    /// When.
    pub time: Timestamp,
}

/// One line of `GET /pods?watch=true`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WatchLine<P> {
    /// What happened.
    #[serde(rename = "type")]
    pub kind: WatchKind,
    /// To which pod; how it was last when it is gone.
    #[serde(skip_serializing_if = "Option::is_none", default = "Option::default")]
    pub object: Option<PodItem<P>>,
    /// All manifests that do not have their way, with [`WatchKind::Refused`].
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub refused: Vec<RefusedManifest>,
}

/// What a line of a watch tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum WatchKind {
    /// A pod is there.
    Added,
    /// A pod, or its last event, is different.
    Modified,
    /// A pod is gone.
    Deleted,
    /// Other manifests than before do not have their way, or none.
    Refused,
    /// The initial state is complete.
    Synced,
}

/// Answer of `GET /events`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventItems {
    /// The events, the latest last.
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
    /// The part of the pod it is about; empty for the pod itself.
    pub field_path: String,
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub kind: String,
    /// In a word.
    pub reason: String,
    /// In a sentence.
    pub message: String,
    /// How often.
    pub count: u64,
    /// Its first occurrence.
    pub first_time: Timestamp,
    /// Its last occurrence.
    pub last_time: Timestamp,
}

/// Answer of `GET /version`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// The version of Kubernetes whose behaviour the agent has, such as `v1.36.3`.
    pub kubernetes: String,
    /// The agent's own.
    pub ferrolet: String,
}

/// Answer of `GET /gc/why`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyAnswer {
    /// What was asked about.
    pub what: String,
    /// What is known.
    #[serde(flatten)]
    pub found: Found,
}

/// Answer of `GET /gc/plan`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GcPlan {
    /// When everything was looked at.
    pub generated_at: Timestamp,
    /// Who was asked.
    pub source: GcSource,
    /// How much is kept, and for how long.
    pub policy: Inputs,
    /// All that was looked at, what goes first in the order in which it goes.
    pub items: Vec<GcItem>,
    /// The events that the next pass would record for the node.
    #[serde(default)]
    pub warnings: Vec<GcWarning>,
    /// What could not be looked at.
    pub problems: Vec<String>,
}

/// An event of the node that a pass would make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcWarning {
    /// What it is called, such as `FreeDiskSpaceFailed`.
    pub reason: String,
    /// What it says.
    pub message: String,
}

/// Where a plan comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GcSource {
    /// The agent, which knows its pods.
    Agent,
    /// The container runtime alone: of pods nothing is known.
    Runtime,
}

/// What is to become of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GcVerdict {
    /// It goes.
    Remove,
    /// It stays.
    Keep,
}

/// Something that garbage collection looks at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GcItem {
    /// What it is: `container`, `sandbox`, `log` or `image`.
    pub kind: String,
    /// Its id or path.
    pub id: String,
    /// What people call it; empty when it has no name beside its id.
    pub name: String,
    /// The pod it belongs to, as `NAMESPACE/NAME`, if that is known.
    pub pod: Option<String>,
    /// That pod's uid.
    #[serde(default)]
    pub pod_uid: Option<String>,
    /// What becomes of it.
    pub verdict: GcVerdict,
    /// The rule that says so.
    pub rule: String,
    /// What the rule was applied to.
    pub detail: Inputs,
}

/// One line of `POST /gc/run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "UPPERCASE")]
pub enum GcLine {
    /// Something is gone.
    Removed {
        /// What.
        item: GcItem,
    },
    /// Something could not be removed.
    Failed {
        /// What.
        item: GcItem,
        /// Why not.
        error: String,
    },
    /// Something was to go, and stays by what has happened since.
    Kept {
        /// What, with the rule that keeps it.
        item: GcItem,
    },
    /// The pass is over. Always the last line; without it, the agent ended first.
    Done(GcDone),
}

/// What a pass came to.
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
    /// Parts of the pass that could not be made.
    pub problems: Vec<String>,
}

/// Answer to what went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What.
    pub message: String,
}
