//! The state of all pods and nodes, in as few bytes as possible, with up-to-date indexes for the passes: a
//! cycle without work reads nothing.
//!
//! ```text
//!  pods: slots, found by uid ──┬── terminated: evicted first, then by time    (in all, by namespace, by node)
//!  names: namespaces, nodes    ├── terminating: pods with a deletion timestamp
//!                              └── missing: nodes that pods name and the cache lacks
//! ```
//! Excluded pods are in slots but in no index.

mod names;
mod relist;
mod shared;
mod slot;
mod views;

use std::collections::BTreeSet;
use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};
use model::cluster::{Deletion, NodeRecord, PodRecord, PodTarget, Uid};

use self::names::Names;
use self::relist::{Relist, is_newer};
pub use self::shared::SharedCache;
use self::slot::{NO_NAME, Slot};
use crate::decide::patch::KnownStatus;
use crate::plan::{Order, PodId, PodView};

/// The key of a terminated pod: whether it sorts after evicted pods, its time, its slot.
type Place = (bool, i64, u32);

/// All pods and nodes.
#[derive(Debug, Default)]
pub struct Cache {
    order: Order,
    /// Whether terminated pods are indexed by finish time as well.
    keeps_finish: bool,
    slots: Vec<Slot>,
    free: Vec<u32>,
    seed: DefaultHashBuilder,
    by_uid: HashTable<u32>,
    namespaces: Names,
    nodes: Names,
    terminated: BTreeSet<Place>,
    by_finish: BTreeSet<(i64, u32)>,
    terminating: BTreeSet<u32>,
    missing: BTreeSet<u32>,
    /// Whether a list of all pods was complete.
    is_listed: bool,
    /// The unfinished new list, if any.
    relist: Option<Relist>,
}

impl Cache {
    /// An empty cache.
    pub fn new(order: Order, keeps_finish: bool) -> Self {
        Self { order, keeps_finish, ..Self::default() }
    }

    /// The number of pods.
    pub fn pods(&self) -> usize {
        self.by_uid.len()
    }

    /// Stores a pod; during a list, at the end of the list.
    pub fn apply(&mut self, record: PodRecord) {
        let Some(record) = self.staged(record) else { return };
        if let Some(slot) = self.slot_of(&record.uid) {
            let known = &mut self.slots[slot as usize];
            known.is_listed = true;
            if !is_newer(record.version, known.version) {
                return;
            }
            let (namespace, node) = (known.namespace, known.node);
            self.unlink(slot);
            self.fill(slot, record);
            self.let_go(namespace, node);
            return;
        }
        let hash = self.seed.hash_one(&record.uid);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).expect("fewer pods than fit into memory")
        });
        self.fill(slot, record);
        let (seed, slots) = (&self.seed, &self.slots);
        self.by_uid.insert_unique(hash, slot, |slot| seed.hash_one(&slots[*slot as usize].uid));
    }

    /// Removes a pod; during a list, at the end of the list.
    pub fn forget(&mut self, uid: &Uid) {
        if self.staged_gone(uid) {
            return;
        }
        let slots = &self.slots;
        let is_it = |slot: &u32| slots[*slot as usize].uid == *uid;
        let found = self.by_uid.find_entry(self.seed.hash_one(uid), is_it);
        let Ok(entry) = found else { return };
        let (slot, _) = entry.remove();
        self.unlink(slot);
        let known = &mut self.slots[slot as usize];
        let (namespace, node) = (known.namespace, known.node);
        let stamp = known.stamp.wrapping_add(1);
        *known = Slot::default();
        known.stamp = stamp;
        self.free.push(slot);
        self.let_go(namespace, node);
    }

    /// Keeps the last state of a pod whose new state cannot be decoded.
    pub fn keep(&mut self, uid: &Uid) {
        if let Some(slot) = self.slot_of(uid) {
            self.slots[slot as usize].is_listed = true;
        }
    }

    /// Stores a node.
    pub fn apply_node(&mut self, node: &NodeRecord) {
        let id = self.nodes.take(&node.name);
        let entry = self.nodes.get_mut(id);
        if entry.node.is_some() {
            entry.users -= 1;
        }
        entry.node = Some((node.is_ready, node.is_out_of_service));
        entry.is_listed = true;
        self.missing.remove(&id);
    }

    /// Removes a node.
    pub fn forget_node(&mut self, name: &str) {
        let Some(id) = self.nodes.find(name) else { return };
        self.forget_node_at(id);
    }

    /// Keeps the last state of a node whose new state cannot be decoded. An unknown one counts as healthy: none
    /// of its pods is deleted.
    pub fn keep_node(&mut self, name: String) {
        let known = self.node(&name);
        let well = NodeRecord { name, is_ready: true, is_out_of_service: false };
        self.apply_node(&known.unwrap_or(well));
    }

    fn forget_node_at(&mut self, id: u32) {
        let entry = self.nodes.get_mut(id);
        if entry.node.take().is_none() {
            return;
        }
        if entry.pods > 0 {
            self.missing.insert(id);
        }
        self.nodes.let_go(id);
    }

    /// A list of nodes begins.
    pub fn restart_nodes(&mut self) {
        for id in self.nodes.ids() {
            self.nodes.get_mut(id).is_listed = false;
        }
    }

    /// A list of nodes is complete.
    pub fn complete_nodes(&mut self) {
        for id in self.nodes.ids() {
            let entry = self.nodes.get(id);
            if entry.node.is_some() && !entry.is_listed {
                self.forget_node_at(id);
            }
        }
    }

    /// The names of nodes that pods have and the cache lacks.
    pub fn missing_nodes(&self) -> impl Iterator<Item = &str> {
        self.missing.iter().map(|id| self.nodes.text(*id))
    }

    /// The number of pods with such a node name.
    pub fn missing_pods(&self) -> usize {
        self.missing.iter().map(|id| self.nodes.get(*id).pods as usize).sum()
    }

    /// The number of missing node names.
    pub fn missing_count(&self) -> usize {
        self.missing.len()
    }

    /// Whether the cache has a node of that name.
    pub fn has_node(&self, name: &str) -> bool {
        self.nodes.find(name).is_some_and(|id| self.nodes.get(id).node.is_some())
    }

    /// A node, as last received.
    pub fn node(&self, name: &str) -> Option<NodeRecord> {
        let (is_ready, is_out_of_service) = self.nodes.get(self.nodes.find(name)?).node?;
        Some(NodeRecord { name: name.to_owned(), is_ready, is_out_of_service })
    }

    /// The pod with this id, if it still has its slot, with the inputs of writes.
    pub fn target(&self, id: PodId) -> Option<(PodView<'_>, PodTarget, KnownStatus)> {
        let view = self.view(id)?;
        let slot = &self.slots[id.slot as usize];
        let target = PodTarget {
            namespace: view.namespace.into(),
            name: slot.name.clone(),
            uid: slot.uid.clone(),
            version: slot.version,
        };
        let known = KnownStatus {
            phase: slot.phase,
            generation: slot.generation,
            observed_generation: slot.observed_generation,
            disrupted_since: slot.disrupted_since(),
        };
        Some((view, target, known))
    }

    /// Records that the controller deleted a pod; it is not deleted again before the next event about it.
    pub fn mark_asked(&mut self, id: PodId) {
        if let Some(slot) = self.slots.get_mut(id.slot as usize)
            && slot.stamp == id.stamp
        {
            slot.requested = true;
        }
    }

    /// Stores a pod in a slot and in all indexes.
    fn fill(&mut self, at: u32, record: PodRecord) {
        let namespace = self.namespaces.take(&record.namespace);
        let node = if record.node.is_empty() { NO_NAME } else { self.nodes.take(&record.node) };
        let slot = &mut self.slots[at as usize];
        let stamp = slot.stamp;
        *slot = Slot::new(record, namespace, node);
        slot.stamp = stamp;
        if slot.excluded {
            return;
        }
        if node != NO_NAME {
            let entry = self.nodes.get_mut(node);
            entry.pods += 1;
            if entry.node.is_none() {
                self.missing.insert(node);
            }
        }
        if slot.deletion != Deletion::None {
            self.terminating.insert(at);
        }
        if slot.phase.is_terminated() {
            let place = place(slot, self.order, at);
            self.terminated.insert(place);
            if self.keeps_finish {
                self.by_finish.insert((slot.finished(), at));
            }
            self.namespaces.get_mut(namespace).terminated += 1;
            if node != NO_NAME {
                self.nodes.get_mut(node).terminated += 1;
            }
        }
    }

    /// Removes a pod from all indexes.
    fn unlink(&mut self, at: u32) {
        let slot = &self.slots[at as usize];
        if slot.excluded {
            return;
        }
        self.terminating.remove(&at);
        if slot.node != NO_NAME {
            let entry = self.nodes.get_mut(slot.node);
            entry.pods -= 1;
            if entry.pods == 0 {
                self.missing.remove(&slot.node);
            }
        }
        if slot.phase.is_terminated() {
            self.terminated.remove(&place(slot, self.order, at));
            self.by_finish.remove(&(slot.finished(), at));
            self.namespaces.get_mut(slot.namespace).terminated -= 1;
            if slot.node != NO_NAME {
                self.nodes.get_mut(slot.node).terminated -= 1;
            }
        }
    }

    /// Releases the names of a pod.
    fn let_go(&mut self, namespace: u32, node: u32) {
        self.namespaces.let_go(namespace);
        if node != NO_NAME {
            self.nodes.let_go(node);
        }
    }
}

fn place(slot: &Slot, order: Order, at: u32) -> Place {
    let time = match order {
        Order::Creation => slot.created,
        Order::Finish => slot.finished(),
    };
    (!slot.evicted, time, at)
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
