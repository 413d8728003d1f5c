//! Merges the sets of all sources, and decides which pod gets a name that two sources use.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::ids::{PodName, PodUid};
use podspec::{annotations, view};

use super::merge::{Changes, PodSet, merge};

/// A source of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceName {
    /// Manifests in files.
    File,
    /// Manifests from a URL.
    Http,
    /// The API server.
    Api,
}

impl fmt::Display for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => annotations::SOURCE_FILE,
            Self::Http => annotations::SOURCE_HTTP,
            Self::Api => annotations::SOURCE_API,
        })
    }
}

/// A pod that is rejected because another one has its name or uid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedPod {
    /// Its name.
    pub pod: PodName,
    /// Its uid.
    pub uid: PodUid,
    /// The source of the other one; `None` for the same source.
    pub holder: Option<SourceName>,
}

impl fmt::Display for RejectedPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.holder {
            None => f.write_str("another pod of this source has the same name or uid"),
            Some(holder) => write!(f, "a pod of the source {holder} has the same name or uid"),
        }
    }
}

/// A change of one source.
#[derive(Debug, PartialEq)]
pub struct SourceChange {
    /// The source.
    pub source: SourceName,
    /// What changed; its own `refused` is empty.
    pub changes: Changes,
    /// Pods that are newly rejected.
    pub refused: Vec<RejectedPod>,
}

impl SourceChange {
    fn is_empty(&self) -> bool {
        self.changes == Changes::default() && self.refused.is_empty()
    }
}

/// The sets of all sources. No two pods in them have the same uid, and no two pods of manifests have the same name.
/// A pod of the API server may have the name of a pod of a manifest: it is a separate pod, or the mirror
/// pod of that one.
#[derive(Debug)]
pub struct Merged {
    sources: BTreeMap<SourceName, SourceState>,
    /// Sources with rejected pods that may be accepted now.
    to_recheck: VecDeque<SourceName>,
}

#[derive(Debug, Default)]
struct SourceState {
    /// The latest set of the source, rejected pods included.
    latest: Option<Arc<Vec<Arc<Pod>>>>,
    set: PodSet,
    refused: Vec<RejectedPod>,
}

impl Merged {
    /// Merges these sources, none of which has published a set yet.
    pub fn new(sources: impl IntoIterator<Item = SourceName>) -> Self {
        let sources = sources.into_iter().map(|source| (source, SourceState::default())).collect();
        Self { sources, to_recheck: VecDeque::new() }
    }

    /// Whether every source has published a set.
    pub fn all_ready(&self) -> bool {
        self.sources.values().all(|state| state.latest.is_some())
    }

    /// A pod that is wanted.
    pub fn get(&self, uid: &PodUid) -> Option<&Arc<Pod>> {
        self.sources.values().find_map(|state| state.set.get(uid))
    }

    /// All pods that are wanted.
    pub fn pods(&self) -> impl Iterator<Item = (&PodUid, &Arc<Pod>)> {
        self.sources.values().flat_map(|state| &state.set)
    }

    /// Rejected pods.
    pub fn refused(&self) -> impl Iterator<Item = (SourceName, &RejectedPod)> {
        self.sources
            .iter()
            .flat_map(|(source, state)| state.refused.iter().map(|refused| (*source, refused)))
    }

    /// Takes the latest set of a source. The first set of a source is a change even if it is empty;
    /// later, an equal set is not a change.
    pub fn set_latest(
        &mut self,
        source: SourceName,
        pods: Arc<Vec<Arc<Pod>>>,
    ) -> Option<SourceChange> {
        let state = self.sources.get_mut(&source)?;
        let is_first = state.latest.replace(pods).is_none();
        let change = self.merge(source)?;
        (is_first || !change.is_empty()).then_some(change)
    }

    /// The next change that follows for other sources; callers repeat this until it returns `None`.
    pub fn follow_up(&mut self) -> Option<SourceChange> {
        while let Some(source) = self.to_recheck.pop_front() {
            let change = self.merge(source)?;
            if !change.is_empty() {
                return Some(change);
            }
        }
        None
    }

    /// Compares the latest set of a source with the pods accepted from it.
    fn merge(&mut self, source: SourceName) -> Option<SourceChange> {
        let state = self.sources.get(&source)?;
        let latest = state.latest.clone()?;
        let mut clashes = Vec::new();
        let taken = self.taken_by_others(source);
        let free = latest.iter().filter(|pod| {
            let holder = taken.holder(pod);
            if holder.is_some() {
                clashes.push(RejectedPod { pod: view::pod_name(pod), uid: view::uid(pod), holder });
            }
            holder.is_none()
        });
        let free: Vec<Arc<Pod>> = free.cloned().collect();
        let (mut changes, set) = merge(&state.set, free);
        let own = std::mem::take(&mut changes.refused).into_iter();
        clashes.extend(own.map(|(pod, uid)| RejectedPod { pod, uid, holder: None }));
        let state = self.sources.get_mut(&source)?;
        state.set = set;
        let before = std::mem::take(&mut state.refused);
        state.refused.clone_from(&clashes);
        clashes.retain(|clash| !before.iter().any(|before| before.uid == clash.uid));
        if !changes.removed.is_empty() {
            self.recheck_others(source);
        }
        Some(SourceChange { source, changes, refused: clashes })
    }

    /// A name that is free now may be used by a rejected pod of another source. This terminates: a source that is
    /// rechecked takes only free names, and then names from its own list in order.
    fn recheck_others(&mut self, source: SourceName) {
        let to_recheck = &mut self.to_recheck;
        for (other, state) in &self.sources {
            if *other != source && !state.refused.is_empty() && !to_recheck.contains(other) {
                to_recheck.push_back(*other);
            }
        }
    }

    fn taken_by_others(&self, source: SourceName) -> HeldNames {
        let mut taken = HeldNames::default();
        for (other, state) in self.sources.iter().filter(|(other, _)| **other != source) {
            for (uid, pod) in &state.set {
                taken.uids.insert(uid.clone(), *other);
                // Names of pods of the API server do not clash with those of manifests.
                if source != SourceName::Api && *other != SourceName::Api {
                    taken.names.insert(view::pod_name(pod), *other);
                }
            }
        }
        taken
    }
}

/// Names and uids of the pods of other sources.
#[derive(Debug, Default)]
struct HeldNames {
    names: BTreeMap<PodName, SourceName>,
    uids: BTreeMap<PodUid, SourceName>,
}

impl HeldNames {
    /// The source that holds the name or uid of this pod.
    fn holder(&self, pod: &Pod) -> Option<SourceName> {
        let by_name = || self.names.get(&view::pod_name(pod));
        self.uids.get(&view::uid(pod)).or_else(by_name).copied()
    }
}

#[cfg(test)]
#[path = "sources_tests.rs"]
mod tests;
