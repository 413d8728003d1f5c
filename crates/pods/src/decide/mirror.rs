//! Mirror pods: the objects that show a node's static pods in the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use model::ids::{PodName, PodUid};
use podspec::{annotations, view};

/// The static pods of the node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StaticPods {
    /// Static pods that should run.
    pub wanted: Vec<Arc<Pod>>,
    /// Static pods that still have remains on the node, wanted or not.
    pub present: BTreeMap<PodUid, PodName>,
    /// Whether every source has published a set. Before that, no mirror pod counts as a leftover.
    pub all_sources_ready: bool,
}

/// A step that a mirror pod needs.
#[derive(Debug, Clone, PartialEq)]
pub enum MirrorStep {
    /// Make the mirror of this static pod.
    Create(Arc<Pod>),
    /// Delete this mirror, for this reason.
    Delete(Arc<Pod>, &'static str),
}

impl MirrorStep {
    /// The pod name of the mirror pod.
    pub fn name(&self) -> PodName {
        match self {
            Self::Create(pod) | Self::Delete(pod, _) => view::pod_name(pod),
        }
    }

    /// The uid of the static pod that gets a mirror pod, or of the mirror pod to delete.
    pub fn uid(&self) -> PodUid {
        match self {
            Self::Create(pod) | Self::Delete(pod, _) => view::uid(pod),
        }
    }
}

/// The steps after which each static pod has its mirror pod and none is left over. While a static pod
/// terminates, its mirror pod stays, also if the next static pod of its name waits already.
pub fn mirror_steps(pods: &StaticPods, mirrors: &[Arc<Pod>]) -> Vec<MirrorStep> {
    let by_name: BTreeMap<PodName, &Arc<Pod>> =
        mirrors.iter().map(|mirror| (view::pod_name(mirror), mirror)).collect();
    let mut steps = Vec::new();
    let mut shown = BTreeSet::new();
    for pod in &pods.wanted {
        let (uid, name) = (view::uid(pod), view::pod_name(pod));
        let former_ends = pods.present.iter().any(|(other, of)| *of == name && *other != uid);
        match by_name.get(&name) {
            _ if former_ends => {}
            None => steps.push(MirrorStep::Create(Arc::clone(pod))),
            Some(mirror) if view::is_being_deleted(mirror) => {
                steps.push(MirrorStep::Delete(Arc::clone(mirror), "mirror-is-deleted"));
            }
            Some(mirror) if view::mirrored(mirror) != Some(uid.as_str()) => {
                steps.push(MirrorStep::Delete(Arc::clone(mirror), "mirror-of-another"));
            }
            Some(_) => {}
        }
        shown.insert(name);
    }
    let ending: BTreeSet<&PodName> = pods.present.values().collect();
    let left_over = by_name.iter().filter(|(name, _)| {
        pods.all_sources_ready && !shown.contains(*name) && !ending.contains(*name)
    });
    let left_over = left_over.map(|(_, mirror)| (*mirror).clone());
    steps.extend(left_over.map(|mirror| MirrorStep::Delete(mirror, "static-pod-is-gone")));
    steps
}

/// The node that a mirror belongs to.
#[derive(Debug, Clone, Copy)]
pub struct OwnerNode<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its uid, which changes when the node is registered again.
    pub uid: &'a str,
}

/// The mirror pod of a static pod that was first seen at `seen`. The API server assigns its uid.
pub fn mirror_of(pod: &Pod, node: OwnerNode<'_>, seen: Timestamp) -> Pod {
    let given = &pod.metadata;
    let mut marks = given.annotations.clone().unwrap_or_default();
    let hash = marks.get(annotations::CONFIG_HASH).cloned().unwrap_or_default();
    marks.insert(annotations::CONFIG_MIRROR.to_owned(), hash);
    marks.entry(annotations::CONFIG_SEEN.to_owned()).or_insert_with(|| seen.to_string());
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.name.to_owned(),
        uid: node.uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: None,
    };
    let metadata = ObjectMeta {
        name: given.name.clone(),
        namespace: given.namespace.clone(),
        labels: given.labels.clone(),
        finalizers: given.finalizers.clone(),
        annotations: Some(marks),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    Pod { metadata, spec: pod.spec.clone(), status: None }
}

#[cfg(test)]
#[path = "mirror_tests.rs"]
mod tests;
