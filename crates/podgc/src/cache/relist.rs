//! A list of all pods while it is under way. Readers see the pods of the last complete list, with the
//! changes that followed it, until the new list is complete: a mixture of both has more terminated pods
//! than the cluster ever had.

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;

use model::cluster::{PodRecord, Uid, Version};

use super::Cache;

/// What an unfinished list says of pods that the cache does not have, or has in an older version. Pods that
/// did not change are not in it: few are.
pub(super) type Relist = BTreeMap<Uid, PodRecord>;

impl Cache {
    /// A list of all pods begins. An earlier one that broke off is dropped.
    pub fn restart_pods(&mut self) {
        for slot in &self.by_uid {
            self.slots[*slot as usize].is_listed = false;
        }
        // Nothing reads the cache before its first list is complete, which goes to its place at once.
        self.relist = self.is_listed.then(Relist::new);
    }

    /// The list of all pods is complete: its pods replace the earlier ones.
    pub fn complete_pods(&mut self) {
        let relist = self.relist.take();
        let absent = self.by_uid.iter().map(|slot| &self.slots[*slot as usize]);
        let absent: Vec<Uid> =
            absent.filter(|slot| !slot.is_listed).map(|slot| slot.uid.clone()).collect();
        for uid in &absent {
            self.forget(uid);
        }
        for record in relist.into_iter().flat_map(Relist::into_values) {
            self.apply(record);
        }
        self.slots.shrink_to_fit();
        self.is_listed = true;
    }

    /// Keeps a pod of an unfinished list for its end; the pod itself if there is no list.
    pub(super) fn staged(&mut self, record: PodRecord) -> Option<PodRecord> {
        let known = self.slot_of(&record.uid);
        let Some(relist) = &mut self.relist else { return Some(record) };
        let listed = relist.get(&record.uid).map(|listed| listed.version);
        let known = known.map(|slot| {
            self.slots[slot as usize].is_listed = true;
            self.slots[slot as usize].version
        });
        if [listed, known].into_iter().flatten().all(|before| is_newer(record.version, before)) {
            relist.insert(record.uid.clone(), record);
        }
        None
    }

    /// Notes that a pod of an unfinished list is gone; whether there is such a list.
    pub(super) fn staged_gone(&mut self, uid: &Uid) -> bool {
        let slot = self.slot_of(uid);
        let Some(relist) = &mut self.relist else { return false };
        relist.remove(uid);
        if let Some(slot) = slot {
            self.slots[slot as usize].is_listed = false;
        }
        true
    }

    /// The slot of a pod.
    pub(super) fn slot_of(&self, uid: &Uid) -> Option<u32> {
        let is_it = |slot: &u32| self.slots[*slot as usize].uid == *uid;
        self.by_uid.find(self.seed.hash_one(uid), is_it).copied()
    }
}

/// Whether a version of a pod replaces the known one. A list may come from a server that is behind: the known
/// one does not get older. The same version again says nothing of what was done to the pod.
pub(super) fn is_newer(version: Version, known: Version) -> bool {
    version > known || version == known && version.0.is_none()
}
