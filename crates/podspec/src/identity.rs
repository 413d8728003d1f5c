//! Turns a pod from a manifest into a static pod of this node.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Pod, PodStatus, Toleration};

use crate::annotations;
use crate::field_error::{FieldError, FieldErrors, FieldPath};
use crate::fnv::Fnv1a128;
use crate::references;

/// The origin of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// A file on this node.
    File(PathBuf),
    /// A URL that this node polls.
    Url(String),
}

impl Origin {
    /// The name of the source for the annotation of its pods.
    pub fn source(&self) -> &'static str {
        match self {
            Self::File(_) => annotations::SOURCE_FILE,
            Self::Url(_) => annotations::SOURCE_HTTP,
        }
    }
}

/// Turns a pod with defaults into a static pod of the node. Rejects one without a name, and
/// one that refers to objects of the API: a static pod must run without the API.
pub fn static_pod(pod: Pod, origin: &Origin, node_name: &str) -> Result<Pod, Vec<FieldError>> {
    let errors = obstacles(&pod).into_vec();
    if errors.is_empty() { Ok(with_identity(pod, origin, node_name)) } else { Err(errors) }
}

/// The reasons why a pod cannot be a static pod.
pub(crate) fn obstacles(pod: &Pod) -> FieldErrors {
    let mut errors = FieldErrors::default();
    if pod.metadata.name.as_deref().is_none_or(str::is_empty) {
        errors.required(&FieldPath::from("metadata.name"), "name is needed for the pod");
    }
    if let Some(spec) = &pod.spec {
        references::check(spec, &FieldPath::from("spec"), &mut errors);
    }
    errors
}

/// Sets the uid, the name on this node, and the annotations of a static pod.
pub(crate) fn with_identity(mut pod: Pod, origin: &Origin, node_name: &str) -> Pod {
    forget_former_life(&mut pod);
    let uid = match pod.metadata.uid.take().filter(|uid| !uid.is_empty()) {
        Some(uid) => uid,
        None => content_uid(&pod, origin, node_name),
    };
    let name = pod.metadata.name.take().unwrap_or_default();
    pod.metadata.name = Some(format!("{name}-{}", node_name.to_lowercase()));
    if pod.metadata.namespace.as_deref().is_none_or(str::is_empty) {
        pod.metadata.namespace = Some("default".to_owned());
    }
    let marks = pod.metadata.annotations.get_or_insert_default();
    marks.insert(annotations::CONFIG_HASH.to_owned(), uid.clone());
    marks.insert(annotations::CONFIG_SOURCE.to_owned(), origin.source().to_owned());
    pod.metadata.uid = Some(uid);

    let spec = pod.spec.get_or_insert_default();
    spec.node_name = Some(node_name.to_owned());
    if let Origin::File(_) = origin {
        tolerate_no_execute(spec.tolerations.get_or_insert_default());
    }
    pod.status = Some(PodStatus { phase: Some("Pending".to_owned()), ..PodStatus::default() });
    pod
}

/// Sets when a source first saw a static pod; the time of `known`, if that is the same pod.
pub fn mark_seen(pod: &mut Pod, known: Option<&Pod>, now: &str) {
    let known = known.filter(|known| known.metadata.uid == pod.metadata.uid);
    let marks = known.and_then(|known| known.metadata.annotations.as_ref());
    let seen = marks.and_then(|marks| marks.get(annotations::CONFIG_SEEN));
    let seen = seen.cloned().unwrap_or_else(|| now.to_owned());
    let marks = pod.metadata.annotations.get_or_insert_default();
    marks.insert(annotations::CONFIG_SEEN.to_owned(), seen);
}

/// Drops fields that only an object in the API may have. Manifests are often copies of such objects, and
/// a copied deletion timestamp or mirror annotation would take effect here.
fn forget_former_life(pod: &mut Pod) {
    pod.status = None;
    pod.metadata.deletion_timestamp = None;
    pod.metadata.deletion_grace_period_seconds = None;
    if let Some(marks) = &mut pod.metadata.annotations {
        for mark in annotations::ALL {
            marks.remove(*mark);
        }
    }
}

/// Whether a uid looks like the hash of a manifest: an API server assigns uids with dashes.
pub fn is_content_uid(uid: &str) -> bool {
    uid.len() == 32 && uid.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A uid that is computed from the content of the manifest, its origin and its node: the same after a
/// restart of the agent, another one after every edit.
///
/// The content is hashed as serialized by the API, with defaults. Maps are sorted there, so
/// their order in the manifest does not matter.
fn content_uid(pod: &Pod, origin: &Origin, node_name: &str) -> String {
    let mut hash = Fnv1a128::new();
    serde_json::to_writer(&mut hash, pod).expect("a pod serializes to JSON");
    hash.update(b"host:");
    hash.update(node_name.as_bytes());
    match origin {
        Origin::File(path) => {
            hash.update(b"file:");
            hash.update(path.as_os_str().as_encoded_bytes());
        }
        Origin::Url(url) => {
            hash.update(b"url:");
            hash.update(url.as_bytes());
        }
    }
    hash.hex()
}

/// Taints for problems of the node must not stop static pods.
fn tolerate_no_execute(tolerations: &mut Vec<Toleration>) {
    let all = Toleration {
        effect: Some("NoExecute".to_owned()),
        operator: Some("Exists".to_owned()),
        ..Toleration::default()
    };
    let is_empty = |field: &Option<String>| field.as_deref().is_none_or(str::is_empty);
    let is_same = |other: &Toleration| {
        is_empty(&other.key)
            && is_empty(&other.value)
            && other.effect == all.effect
            && other.operator == all.operator
    };
    if let Some(other) = tolerations.iter_mut().find(|other| is_same(other)) {
        *other = all;
        return;
    }
    // Stored for every pod, so without spare capacity.
    tolerations.reserve_exact(1);
    tolerations.push(all);
}
