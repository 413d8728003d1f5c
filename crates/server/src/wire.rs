//! What goes over the socket, for both ends.

use jiff::Timestamp;
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

/// A pod and the last that was told about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodItem<P> {
    /// The pod with its status.
    pub pod: P,
    /// The last event about it.
    pub last_event: Option<LastEvent>,
}

/// The last that was told about a pod.
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
    /// All that was there when the watch began has been told.
    Synced,
}

/// Answer of `GET /events`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventItems {
    /// The events, the latest last.
    pub items: Vec<EventItem>,
}

/// What was told about a pod or the node, once or again and again.
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
    /// When it was told first.
    pub first_time: Timestamp,
    /// When it was told last.
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

/// Answer to what went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What.
    pub message: String,
}
