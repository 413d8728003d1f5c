//! What the API server says of the pods of this node.

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
    /// As it was update last.
    copy: Arc<Pod>,
    /// As it is to be run: the same object as long as nothing changed but what is told of it.
    wanted: Arc<Pod>,
    /// The number of the last change.
    number: u64,
}

/// The pods that are bound to this node, as far as was update.
#[derive(Debug, Default)]
pub struct ApiPods {
    pods: BTreeMap<PodUid, Entry>,
    /// Those that could not be understood, and of which nothing was before. They are there all the same: nobody may
    /// take what runs of them for unwanted.
    unread: BTreeSet<PodUid>,
    /// What a list told so far that is not at its end.
    listing: Option<Listing>,
    /// How many lists were told to their ends.
    listings: u64,
    /// Counts changes.
    number: u64,
    /// Whether what containers say of their own restarts means nothing.
    drops_restart_rules: bool,
}

/// A list that is not at its end.
#[derive(Debug, Default)]
struct Listing {
    pods: BTreeMap<PodUid, Arc<Pod>>,
    unread: BTreeSet<PodUid>,
}

/// What a change came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourceUpdate {
    /// Whether any pod is different in anything.
    pub changed: bool,
    /// Whether the pods that are to be run are others, or others of their kind.
    pub wanted: bool,
    /// Whether others are there that could not be understood.
    pub unread: bool,
}

impl ApiPods {
    /// Takes in what was update. A list counts once it was told to its end: before that it is not known
    /// who is gone, and two pods could have one name.
    pub fn hear(&mut self, change: Change<Arc<Pod>, PodUid>) -> SourceUpdate {
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
                // As it was: it is not gone.
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
        // A store that was put back to an older state gives a version twice: it alone does not tell.
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

    /// From now on, what containers say of their own restarts means nothing.
    pub fn drop_restart_rules(&mut self) {
        self.drops_restart_rules = true;
    }

    /// The pod without what means nothing here.
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

    /// How many changes there were.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether all pods were told once.
    pub fn is_complete(&self) -> bool {
        self.listings > 0
    }

    /// How often all pods were told from the beginning, to the end.
    pub fn listings(&self) -> u64 {
        self.listings
    }

    /// The pods that are to be run here. Mirrors only show pods of other sources.
    pub fn wanted(&self) -> Vec<Arc<Pod>> {
        let entries = self.pods.values().filter(|entry| !view::is_mirror(&entry.copy));
        entries.map(|entry| Arc::clone(&entry.wanted)).collect()
    }

    /// The pods of which only that is known that they are there.
    pub fn unread(&self) -> &BTreeSet<PodUid> {
        &self.unread
    }

    /// The mirrors of static pods.
    pub fn mirrors(&self) -> Vec<Arc<Pod>> {
        let entries = self.pods.values().filter(|entry| view::is_mirror(&entry.copy));
        entries.map(|entry| Arc::clone(&entry.copy)).collect()
    }

    /// What the API server has of a pod; of a static pod, whose name is given, that is its mirror.
    pub fn copy(&self, uid: &PodUid, fixed: Option<&PodName>) -> Option<Arc<Pod>> {
        let own = self.pods.get(uid).filter(|entry| !view::is_mirror(&entry.copy));
        let shows = |mirror: &Pod| {
            view::mirrored(mirror) == Some(uid.as_str())
                && fixed.is_some_and(|name| view::pod_name(mirror) == *name)
        };
        let mirror = || self.pods.values().find(|entry| shows(&entry.copy));
        own.or_else(mirror).map(|entry| Arc::clone(&entry.copy))
    }

    /// The pods that changed after that many changes; static pods by their own uids.
    pub fn changed_since(&self, number: u64) -> Vec<PodUid> {
        let newer = self.pods.iter().filter(|(_, entry)| entry.number > number);
        newer
            .map(|(uid, entry)| {
                view::mirrored(&entry.copy).map_or_else(|| uid.clone(), PodUid::from)
            })
            .collect()
    }
}

/// A pod with the mark of its source: whoever writes another one into the API must not make it a pod of
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
