//! What all sources say, together: whose pod has a name when two sources want it.

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

/// A pod that is not taken, because another one has its name or uid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its name.
    pub pod: PodName,
    /// Its uid.
    pub uid: PodUid,
    /// The source of the other one; `None` for the same source.
    pub holder: Option<SourceName>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.holder {
            None => f.write_str("another pod of this source has the same name or uid"),
            Some(holder) => write!(f, "a pod of the source {holder} has the same name or uid"),
        }
    }
}

/// What is new of one source.
#[derive(Debug, PartialEq)]
pub struct SourceChange {
    /// Which source.
    pub source: SourceName,
    /// What changed; its own `refused` is empty.
    pub changes: Changes,
    /// Pods that were not taken and that were not named before.
    pub refused: Vec<Refused>,
}

impl SourceChange {
    fn is_empty(&self) -> bool {
        self.changes == Changes::default() && self.refused.is_empty()
    }
}

/// The sets of all sources. No two pods in them have one uid, and no two of manifests have one name. A
/// pod of the API server may have the name of one of a manifest: it is a pod of its own, or the mirror
/// of that one.
#[derive(Debug)]
pub struct Merged {
    sources: BTreeMap<SourceName, Told>,
    /// Sources that may get what they were refused.
    to_recheck: VecDeque<SourceName>,
}

#[derive(Debug, Default)]
struct Told {
    /// The latest word of the source, refused pods included.
    latest: Option<Arc<Vec<Arc<Pod>>>>,
    set: PodSet,
    refused: Vec<Refused>,
}

impl Merged {
    /// Of these sources, none of which has said anything yet.
    pub fn new(sources: impl IntoIterator<Item = SourceName>) -> Self {
        let sources = sources.into_iter().map(|source| (source, Told::default())).collect();
        Self { sources, to_recheck: VecDeque::new() }
    }

    /// Whether every source has said something.
    pub fn all_told(&self) -> bool {
        self.sources.values().all(|told| told.latest.is_some())
    }

    /// A pod that is wanted.
    pub fn get(&self, uid: &PodUid) -> Option<&Arc<Pod>> {
        self.sources.values().find_map(|told| told.set.get(uid))
    }

    /// All pods that are wanted.
    pub fn pods(&self) -> impl Iterator<Item = (&PodUid, &Arc<Pod>)> {
        self.sources.values().flat_map(|told| &told.set)
    }

    /// Pods that are wanted and were not taken.
    pub fn refused(&self) -> impl Iterator<Item = (SourceName, &Refused)> {
        self.sources
            .iter()
            .flat_map(|(source, told)| told.refused.iter().map(|refused| (*source, refused)))
    }

    /// Takes in what a source says. The first word of a source is a change even if it is empty;
    /// later, nothing new is none.
    pub fn tell(&mut self, source: SourceName, pods: Arc<Vec<Arc<Pod>>>) -> Option<SourceChange> {
        let told = self.sources.get_mut(&source)?;
        let is_first = told.latest.replace(pods).is_none();
        let change = self.merge(source)?;
        (is_first || !change.is_empty()).then_some(change)
    }

    /// What follows for other sources from what one said; to be asked until there is nothing.
    pub fn follow_up(&mut self) -> Option<SourceChange> {
        while let Some(source) = self.to_recheck.pop_front() {
            let change = self.merge(source)?;
            if !change.is_empty() {
                return Some(change);
            }
        }
        None
    }

    /// Compares the latest word of a source with its set.
    fn merge(&mut self, source: SourceName) -> Option<SourceChange> {
        let told = self.sources.get(&source)?;
        let latest = told.latest.clone()?;
        let mut clashes = Vec::new();
        let taken = self.taken_by_others(source);
        let free = latest.iter().filter(|pod| {
            let holder = taken.holder(pod);
            if holder.is_some() {
                clashes.push(Refused { pod: view::pod_name(pod), uid: view::uid(pod), holder });
            }
            holder.is_none()
        });
        let free: Vec<Arc<Pod>> = free.cloned().collect();
        let (mut changes, set) = merge(&told.set, free);
        let own = std::mem::take(&mut changes.refused).into_iter();
        clashes.extend(own.map(|(pod, uid)| Refused { pod, uid, holder: None }));
        let told = self.sources.get_mut(&source)?;
        told.set = set;
        let before = std::mem::take(&mut told.refused);
        told.refused.clone_from(&clashes);
        clashes.retain(|clash| !before.iter().any(|before| before.uid == clash.uid));
        if !changes.removed.is_empty() {
            self.recheck_others(source);
        }
        Some(SourceChange { source, changes, refused: clashes })
    }

    /// Whose name is free now may have been wanted elsewhere. This comes to an end: a source that is
    /// looked at again takes only what is free, and gets what stands earlier in its own list.
    fn recheck_others(&mut self, source: SourceName) {
        let to_recheck = &mut self.to_recheck;
        for (other, told) in &self.sources {
            if *other != source && !told.refused.is_empty() && !to_recheck.contains(other) {
                to_recheck.push_back(*other);
            }
        }
    }

    fn taken_by_others(&self, source: SourceName) -> Taken {
        let mut taken = Taken::default();
        for (other, told) in self.sources.iter().filter(|(other, _)| **other != source) {
            for (uid, pod) in &told.set {
                taken.uids.insert(uid.clone(), *other);
                // Names of the API server are others than those of manifests.
                if source != SourceName::Api && *other != SourceName::Api {
                    taken.names.insert(view::pod_name(pod), *other);
                }
            }
        }
        taken
    }
}

/// What belongs to pods of other sources.
#[derive(Debug, Default)]
struct Taken {
    names: BTreeMap<PodName, SourceName>,
    uids: BTreeMap<PodUid, SourceName>,
}

impl Taken {
    /// Who has what this pod wants to have.
    fn holder(&self, pod: &Pod) -> Option<SourceName> {
        let by_name = || self.names.get(&view::pod_name(pod));
        self.uids.get(&view::uid(pod)).or_else(by_name).copied()
    }
}

#[cfg(test)]
#[path = "sources_tests.rs"]
mod tests;
