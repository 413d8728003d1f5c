//! An unfinished list of all pods. Until it is complete, readers see the pods of the last complete list with
//! later changes: a mixture of both lists would have more terminated pods than the cluster ever had.

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;

use model::cluster::{PodRecord, Uid, Version};

use super::Cache;

/// Pods of an unfinished list that are new or changed. Unchanged pods, which are most, are not stored.
pub(super) type Relist = BTreeMap<Uid, PodRecord>;

impl Cache {
    /// A list of all pods begins. An unfinished earlier one is dropped.
    pub fn restart_pods(&mut self) {
        for slot in &self.by_uid {
            self.slots[*slot as usize].is_listed = false;
        }
        // The cache is not read before its first list is complete, so that list is stored directly.
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

    /// Stores a pod of an unfinished list until its end; returns the pod if there is no list.
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

    /// Records the removal of a pod of an unfinished list; returns whether there is such a list.
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

/// Whether a version of a pod replaces the known one. A list may come from an outdated server, which must not
/// replace newer pods. An equal version changes nothing.
pub(super) fn is_newer(version: Version, known: Version) -> bool {
    version > known || version == known && version.0.is_none()
}
