//! The stored parts of API objects, where whole objects would take too much memory.
//!
//! A cluster has a hundred thousand pods of several kilobytes each. Pod GC only counts and removes them, and
//! needs a dozen fields.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use crate::ids::{PodName, PodUid};
use crate::ports::events::EventAnnotations;

/// `metadata.uid`: 16 bytes for a UID in the format of the API server.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Uid {
    /// In the usual form, lower case with hyphens.
    Uuid([u8; 16]),
    /// Any other text.
    Text(Box<str>),
}

/// The positions of the hyphens in a UUID.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        uuid(text.as_bytes()).map_or_else(|| Self::Text(text.into()), Self::Uuid)
    }
}

/// The bytes of a UUID in canonical form, which can be restored from them.
fn uuid(text: &[u8]) -> Option<[u8; 16]> {
    if text.len() != 36 || HYPHENS.iter().any(|at| text[*at] != b'-') {
        return None;
    }
    let mut digits = text.iter().enumerate().filter(|(at, _)| !HYPHENS.contains(at));
    let mut digit = || match digits.next()?.1 {
        digit @ b'0'..=b'9' => Some(digit - b'0'),
        letter @ b'a'..=b'f' => Some(letter - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; 16];
    for byte in &mut bytes {
        *byte = digit()? << 4 | digit()?;
    }
    Some(bytes)
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Uuid(bytes) => {
                for (at, byte) in bytes.iter().enumerate() {
                    let hyphen = if [4, 6, 8, 10].contains(&at) { "-" } else { "" };
                    write!(f, "{hyphen}{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `metadata.resourceVersion`; `None` if it is not a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version(pub Option<std::num::NonZeroU64>);

impl From<&str> for Version {
    fn from(text: &str) -> Self {
        Self(text.parse().ok())
    }
}

impl From<u64> for Version {
    fn from(number: u64) -> Self {
        Self(std::num::NonZeroU64::new(number))
    }
}

/// `status.phase`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum PodPhase {
    /// Accepted; not all containers have started.
    Pending,
    /// On a node, and not terminated.
    Running,
    /// All containers terminated successfully.
    Succeeded,
    /// All containers terminated, at least one with a failure.
    Failed,
    /// The node does not report it.
    Unknown,
    /// Absent, or not a known phase.
    #[default]
    Other,
}

impl PodPhase {
    /// The phase with this name.
    pub fn named(text: &str) -> Self {
        match text {
            "Pending" => Self::Pending,
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            "Unknown" => Self::Unknown,
            _ => Self::Other,
        }
    }

    /// Whether the pod counts as terminated: as upstream, every phase that is not known to be active.
    pub fn is_terminated(self) -> bool {
        !matches!(self, Self::Pending | Self::Running | Self::Unknown)
    }

    /// Whether the phase is final and must not be overwritten.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

impl fmt::Display for PodPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
            Self::Other => "none",
        })
    }
}

/// Whether the deletion of an object was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Deletion {
    /// It was not.
    #[default]
    None,
    /// With a grace period.
    Graceful,
    /// Without a grace period: only finalizers still hold it.
    Forced,
}

/// The stored fields of a pod. Times are seconds since 1970, the precision of the API.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodRecord {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub version: Version,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`.
    pub observed_generation: i64,
    /// `metadata.creationTimestamp`.
    pub created: i64,
    /// From `metadata.deletionTimestamp` and `deletionGracePeriodSeconds`.
    pub deletion: Deletion,
    /// `spec.nodeName`; empty for a pod without one.
    pub node: String,
    /// `status.phase`.
    pub phase: PodPhase,
    /// Whether `status.reason` is `Evicted`.
    pub is_evicted: bool,
    /// The time since when its condition `DisruptionTarget` is true.
    pub disrupted_since: Option<i64>,
    /// When its last container terminated, if known.
    pub finished: Option<i64>,
    /// Whether a label or an annotation protects it.
    pub is_excluded: bool,
}

impl Default for Uid {
    fn default() -> Self {
        Self::Text("".into())
    }
}

/// The stored fields of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeRecord {
    /// `metadata.name`.
    pub name: String,
    /// Whether its first condition `Ready` is `True`.
    pub is_ready: bool,
    /// Whether it has a taint `node.kubernetes.io/out-of-service`, regardless of its value and
    /// effect.
    pub is_out_of_service: bool,
}

/// One version of one pod: the target of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodTarget {
    /// `metadata.namespace`.
    pub namespace: Box<str>,
    /// `metadata.name`.
    pub name: Box<str>,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub version: Version,
}

impl PodTarget {
    /// A pod at any version.
    pub fn of(pod: &PodName, uid: &PodUid) -> Self {
        Self {
            namespace: (&*pod.namespace).into(),
            name: (&*pod.name).into(),
            uid: uid.as_str().into(),
            version: Version(None),
        }
    }
}

/// The status that is written before a pod is deleted, unless it has terminated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailedStatus {
    /// `status.observedGeneration`, if it changes.
    pub observed_generation: Option<i64>,
    /// The condition `DisruptionTarget`, if it is set.
    pub disruption: Option<Disruption>,
}

/// A condition `DisruptionTarget`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disruption {
    /// The reason.
    pub reason: &'static str,
    /// The message.
    pub message: &'static str,
    /// `metadata.generation` of the pod.
    pub observed_generation: i64,
    /// Since when.
    pub since: Timestamp,
}

/// How a deletion found the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodRemoved {
    /// It is gone.
    Gone,
    /// Its finalizers still hold it.
    Held,
}

/// Namespace and name of a lease.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeaseName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The content of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeaseRecord {
    /// The holder; empty if there is none.
    pub holder: String,
    /// Its duration from the last renewal.
    pub duration: Duration,
    /// Since when, by the holder's clock.
    pub acquired: Option<Timestamp>,
    /// The last renewal, by the holder's clock.
    pub renewed: Option<Timestamp>,
    /// The number of transitions.
    pub transitions: i32,
}

/// A lease at one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Its content.
    pub record: LeaseRecord,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`: an update is refused once it changed.
    pub version: String,
}

/// What an event of the API server is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvolvedObject {
    /// `v1`, `coordination.k8s.io/v1`.
    pub api_version: &'static str,
    /// `Pod`, `Lease`.
    pub kind: &'static str,
    /// Its namespace; empty for cluster-scoped objects, whose events are in `default`.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID; empty if unknown.
    pub uid: Uid,
    /// The field path, such as `spec.containers{main}`; empty for the whole object.
    pub field_path: String,
}

/// An event for the API server. Its first time distinguishes it from others about the same object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterEvent {
    /// The object it is about.
    pub about: InvolvedObject,
    /// Normal or warning.
    pub is_warning: bool,
    /// The reason.
    pub reason: Cow<'static, str>,
    /// The message.
    pub message: String,
    /// When it happened first.
    pub first: Timestamp,
    /// When it happened last.
    pub at: Timestamp,
    /// How often it happened.
    pub count: u32,
    /// The annotations of its object.
    pub annotations: EventAnnotations,
}

impl ClusterEvent {
    /// An event that happens now.
    pub fn new(
        about: InvolvedObject,
        is_warning: bool,
        reason: Cow<'static, str>,
        message: String,
        now: Timestamp,
    ) -> Self {
        let annotations = EventAnnotations::new();
        Self { about, is_warning, reason, message, first: now, at: now, count: 1, annotations }
    }
}

/// The user of a request, as an authenticator identifies it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct User {
    /// The name.
    pub name: String,
    /// The uid, if there is one.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Further attributes, by name.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// A request that the API server authorises.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AccessRequest {
    /// Gets a non-resource path.
    Path(String),
    /// Uses a subresource of a node.
    Node {
        /// The node.
        node: String,
        /// The verb of the API; empty where the method has none.
        verb: &'static str,
        /// The subresource, such as `proxy`.
        subresource: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uid_round_trips() {
        for text in [
            "00112233-4455-6677-8899-aabbccddeeff",
            "00112233-4455-6677-8899-AABBCCDDEEFF",
            "00112233-4455-6677-8899-aabbccddeeff0",
            "0011223344556677-8899-aabb-ccddeeff00",
            "",
            "u1",
        ] {
            assert_eq!(Uid::from(text).to_string(), text);
        }
        assert!(matches!(Uid::from("00112233-4455-6677-8899-aabbccddeeff"), Uid::Uuid(_)));
        assert!(matches!(Uid::from("00112233-4455-6677-8899-AABBCCDDEEFF"), Uid::Text(_)));
    }

    #[test]
    fn non_numeric_resource_version_is_none() {
        assert_eq!(Version::from("12"), Version::from(12));
        assert_eq!(Version::from("x"), Version(None));
        assert_eq!(Version::from(""), Version(None));
    }

    #[test]
    fn phase_counts_as_terminated_unless_known_to_be_active() {
        for (text, terminated, is_final) in [
            ("Pending", false, false),
            ("Running", false, false),
            ("Unknown", false, false),
            ("Succeeded", true, true),
            ("Failed", true, true),
            ("", true, false),
        ] {
            let phase = PodPhase::named(text);
            assert_eq!((phase.is_terminated(), phase.is_final()), (terminated, is_final), "{text}");
        }
    }
}
