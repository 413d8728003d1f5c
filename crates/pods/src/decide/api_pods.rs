//! The pods of this node, as received from the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::ids::{PodName, PodUid};
use model::ports::cluster::Change;
use podspec::{annotations, restart, view};

use super::merge::same_specification;

/// A pod of the API server.
#[derive(Debug, Clone)]
struct Entry {
    /// The latest version.
    copy: Arc<Pod>,
    /// The version to run: the same object as long as only the status or other irrelevant fields changed.
    wanted: Arc<Pod>,
    /// The number of the last change.
    number: u64,
}

/// The pods that are bound to this node, as received so far.
#[derive(Debug, Default)]
pub struct ApiPods {
    pods: BTreeMap<PodUid, Entry>,
    /// Pods that could not be decoded and have no earlier version. They exist: their containers must not be treated
    /// as orphaned.
    unread: BTreeSet<PodUid>,
    /// The part of an incomplete list that was received so far.
    listing: Option<Listing>,
    /// How many lists were received completely.
    listings: u64,
    /// Counts changes.
    number: u64,
    /// Whether restart rules of containers are ignored.
    drops_restart_rules: bool,
}

/// An incomplete list.
#[derive(Debug, Default)]
struct Listing {
    pods: BTreeMap<PodUid, Arc<Pod>>,
    unread: BTreeSet<PodUid>,
}

/// The effect of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourceUpdate {
    /// Whether any pod changed at all.
    pub changed: bool,
    /// Whether the pods to run, or their specifications, changed.
    pub wanted: bool,
    /// Whether the set of pods that could not be decoded changed.
    pub unread: bool,
}

impl ApiPods {
    /// Processes a change of the watch. A list takes effect once it is complete: before that, deleted pods are not
    /// known, and two pods could have the same name.
    pub fn receive(&mut self, change: Change<Arc<Pod>, PodUid>) -> SourceUpdate {
        match (change, &mut self.listing) {
            (Change::Restarted, listing) => {
                *listing = Some(Listing::default());
                SourceUpdate::default()
            }
            (Change::Applied(pod), Some(listing)) => {
                let uid = view::uid(&pod);
                listing.unread.remove(&uid);
                listing.pods.insert(uid, pod);
                SourceUpdate::default()
            }
            (Change::Unread(uid), Some(listing)) => {
                // Keep the earlier version: the pod still exists.
                if let Some(known) = self.pods.get(&uid) {
                    listing.pods.entry(uid).or_insert_with(|| Arc::clone(&known.copy));
                } else if !listing.pods.contains_key(&uid) {
                    listing.unread.insert(uid);
                }
                SourceUpdate::default()
            }
            (Change::Unread(uid), None) => {
                let unread = !self.pods.contains_key(&uid) && self.unread.insert(uid);
                SourceUpdate { unread, ..SourceUpdate::default() }
            }
            (Change::Gone(uid), Some(listing)) => {
                listing.unread.remove(&uid);
                listing.pods.remove(&uid);
                SourceUpdate::default()
            }
            (Change::Complete, listing) => {
                let all = listing.take().unwrap_or_default();
                self.replace(all)
            }
            (Change::Applied(pod), None) => {
                let unread = self.unread.remove(&view::uid(&pod));
                SourceUpdate { unread, ..self.apply(pod) }
            }
            (Change::Gone(uid), None) => {
                let unread = self.unread.remove(&uid);
                SourceUpdate { unread, ..self.remove(&uid) }
            }
        }
    }

    fn replace(&mut self, Listing { pods: all, unread }: Listing) -> SourceUpdate {
        let first = !self.is_complete();
        self.listings += 1;
        let others = unread != self.unread;
        self.unread = unread;
        let mut update = SourceUpdate { changed: first, wanted: first, unread: others };
        let gone: Vec<PodUid> =
            self.pods.keys().filter(|uid| !all.contains_key(*uid)).cloned().collect();
        let gone = gone.iter().map(|uid| self.remove(uid)).collect::<Vec<_>>();
        let came = all.into_values().map(|pod| self.apply(pod)).collect::<Vec<_>>();
        for one in gone.into_iter().chain(came) {
            update.changed |= one.changed;
            update.wanted |= one.wanted;
        }
        update
    }

    fn apply(&mut self, pod: Arc<Pod>) -> SourceUpdate {
        let pod = of_the_api(pod);
        let uid = view::uid(&pod);
        let before = self.pods.get(&uid);
        // A server restored from a backup may use a resource version twice, so the version alone is not enough.
        let is_known = |before: &Entry| {
            view::version(&before.copy) == view::version(&pod) && before.copy == pod
        };
        if before.is_some_and(is_known) {
            return SourceUpdate::default();
        }
        let runs = self.as_run(&pod);
        let same = before.filter(|before| same_specification(&before.wanted, &runs));
        let is_mirror = view::is_mirror(&pod);
        let wanted = same.is_none() && !is_mirror;
        let update = SourceUpdate { changed: true, wanted, unread: false };
        let wanted = same.map_or(runs, |same| Arc::clone(&same.wanted));
        self.number += 1;
        self.pods.insert(uid, Entry { copy: pod, wanted, number: self.number });
        update
    }

    /// From now on, restart rules of containers are ignored.
    pub fn drop_restart_rules(&mut self) {
        self.drops_restart_rules = true;
    }

    /// The pod without the fields that are ignored on this node.
    fn as_run(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        if !self.drops_restart_rules || restart::own_rules(pod).is_empty() {
            return Arc::clone(pod);
        }
        let mut pod = Pod::clone(pod);
        restart::drop_own_rules(&mut pod);
        Arc::new(pod)
    }

    fn remove(&mut self, uid: &PodUid) -> SourceUpdate {
        let Some(gone) = self.pods.remove(uid) else { return SourceUpdate::default() };
        self.number += 1;
        SourceUpdate { changed: true, wanted: !view::is_mirror(&gone.copy), unread: false }
    }

    /// The number of the latest change.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether a complete list was received.
    pub fn is_complete(&self) -> bool {
        self.listings > 0
    }

    /// How many complete lists were received.
    pub fn listings(&self) -> u64 {
        self.listings
    }

    /// The pods to run. Mirror pods only show pods of other sources.
    pub fn wanted(&self) -> Vec<Arc<Pod>> {
        let entries = self.pods.values().filter(|entry| !view::is_mirror(&entry.copy));
        entries.map(|entry| Arc::clone(&entry.wanted)).collect()
    }

    /// The pods that exist but could not be decoded.
    pub fn unread(&self) -> &BTreeSet<PodUid> {
        &self.unread
    }

    /// The mirror pods.
    pub fn mirrors(&self) -> Vec<Arc<Pod>> {
        let entries = self.pods.values().filter(|entry| view::is_mirror(&entry.copy));
        entries.map(|entry| Arc::clone(&entry.copy)).collect()
    }

    /// The API server's copy of a pod; for a static pod, whose name is passed, its mirror pod.
    pub fn copy(&self, uid: &PodUid, fixed: Option<&PodName>) -> Option<Arc<Pod>> {
        let own = self.pods.get(uid).filter(|entry| !view::is_mirror(&entry.copy));
        let shows = |mirror: &Pod| {
            view::mirrored(mirror) == Some(uid.as_str())
                && fixed.is_some_and(|name| view::pod_name(mirror) == *name)
        };
        let mirror = || self.pods.values().find(|entry| shows(&entry.copy));
        own.or_else(mirror).map(|entry| Arc::clone(&entry.copy))
    }

    /// The pods that changed after the change `number`; static pods by their own uids.
    pub fn changed_since(&self, number: u64) -> Vec<PodUid> {
        let newer = self.pods.iter().filter(|(_, entry)| entry.number > number);
        newer
            .map(|(uid, entry)| {
                view::mirrored(&entry.copy).map_or_else(|| uid.clone(), PodUid::from)
            })
            .collect()
    }
}

/// Sets the source annotation of a pod: a client that writes another value must not turn it into a pod of
/// a manifest.
fn of_the_api(pod: Arc<Pod>) -> Arc<Pod> {
    let mark =
        pod.metadata.annotations.as_ref().and_then(|all| all.get(annotations::CONFIG_SOURCE));
    if mark.is_none_or(|mark| mark == annotations::SOURCE_API) {
        return pod;
    }
    let mut pod = Arc::unwrap_or_clone(pod);
    let all = pod.metadata.annotations.get_or_insert_default();
    all.insert(annotations::CONFIG_SOURCE.to_owned(), annotations::SOURCE_API.to_owned());
    Arc::new(pod)
}

#[cfg(test)]
#[path = "api_pods_tests.rs"]
mod tests;
