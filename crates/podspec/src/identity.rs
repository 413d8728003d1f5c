//! What makes a pod from a manifest a static pod of this node.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Pod, PodStatus, Toleration};

use crate::annotations;
use crate::field_error::{FieldError, FieldErrors, FieldPath};
use crate::fnv::Fnv1a128;
use crate::references;

/// Where a manifest comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// A file on this node.
    File(PathBuf),
    /// A URL that this node polls.
    Url(String),
}

impl Origin {
    /// The name of the source, as it stands in the annotation of its pods.
    pub fn source(&self) -> &'static str {
        match self {
            Self::File(_) => annotations::SOURCE_FILE,
            Self::Url(_) => annotations::SOURCE_HTTP,
        }
    }
}

/// Makes a pod, which has its defaults, a static pod of the node. Refuses one without a name, and
/// one that refers to objects of the API: a static pod must run without it.
pub fn static_pod(pod: Pod, origin: &Origin, node_name: &str) -> Result<Pod, Vec<FieldError>> {
    let errors = obstacles(&pod).into_vec();
    if errors.is_empty() { Ok(with_identity(pod, origin, node_name)) } else { Err(errors) }
}

/// Why a pod cannot be a static pod.
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

/// Gives the pod its uid, its name on this node, and the marks of a static pod.
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

/// Notes on a static pod when its source first saw it: as it was noted before, if that was the same pod.
pub fn mark_seen(pod: &mut Pod, known: Option<&Pod>, now: &str) {
    let known = known.filter(|known| known.metadata.uid == pod.metadata.uid);
    let marks = known.and_then(|known| known.metadata.annotations.as_ref());
    let seen = marks.and_then(|marks| marks.get(annotations::CONFIG_SEEN));
    let seen = seen.cloned().unwrap_or_else(|| now.to_owned());
    let marks = pod.metadata.annotations.get_or_insert_default();
    marks.insert(annotations::CONFIG_SEEN.to_owned(), seen);
}

/// Drops what only an object in the API can have. Manifests are often copies of such objects, and
/// a copied deletion or mirror mark would mean something here.
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

/// Whether a uid looks as if it follows from the content of a manifest: an API server gives others, with dashes.
pub fn is_content_uid(uid: &str) -> bool {
    uid.len() == 32 && uid.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A uid that follows from the content of the manifest, its place and its node: the same after a
/// restart of the agent, another one after every edit.
///
/// The content is hashed as the API would write it, with its defaults. Maps are sorted there, so
/// their order in the manifest makes no difference.
fn content_uid(pod: &Pod, origin: &Origin, node_name: &str) -> String {
    let mut hash = Fnv1a128::new();
    serde_json::to_writer(&mut hash, pod).expect("a pod has text keys, and the hash takes it all");
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

/// Trouble with the node is no reason to stop what belongs to the node.
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
    // Kept for every pod, so no larger than it needs to be.
    tolerations.reserve_exact(1);
    tolerations.push(all);
}
