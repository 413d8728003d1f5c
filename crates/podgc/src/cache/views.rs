//! Views of the cache for the rules.

use super::slot::{NO_NAME, Slot};
use super::{Cache, place};
use crate::plan::{PodId, PodView, TerminatedPods};

impl Cache {
    /// The pod with this id, if it still has its slot.
    pub fn view(&self, id: PodId) -> Option<PodView<'_>> {
        let slot = self.slots.get(id.slot as usize)?;
        (slot.stamp == id.stamp && slot.namespace != NO_NAME).then(|| self.view_of(id.slot, slot))
    }

    /// Pods with a deletion timestamp.
    pub fn terminating(&self) -> impl Iterator<Item = PodView<'_>> {
        self.terminating.iter().map(|at| self.view_at(*at))
    }

    /// All pods that may be removed.
    pub fn all(&self) -> impl Iterator<Item = PodView<'_>> {
        let slots = (0u32..).zip(&self.slots).filter(|(_, slot)| !slot.excluded);
        slots.map(|(at, slot)| self.view_of(at, slot))
    }

    fn view_at(&self, at: u32) -> PodView<'_> {
        self.view_of(at, &self.slots[at as usize])
    }

    fn view_of<'a>(&'a self, at: u32, slot: &'a Slot) -> PodView<'a> {
        PodView {
            id: PodId { slot: at, stamp: slot.stamp },
            namespace: self.namespaces.text(slot.namespace),
            name: &slot.name,
            node: if slot.node == NO_NAME { "" } else { self.nodes.text(slot.node) },
            phase: slot.phase,
            is_evicted: slot.evicted,
            created: slot.created,
            finished: slot.finished(),
            order: place(slot, self.order, at).1,
            deletion: slot.deletion,
            is_deletion_requested: slot.requested,
        }
    }
}

impl TerminatedPods for Cache {
    fn count(&self) -> usize {
        self.terminated.len()
    }

    fn in_order(&self) -> Box<dyn Iterator<Item = PodView<'_>> + '_> {
        Box::new(self.terminated.iter().map(|(_, _, at)| self.view_at(*at)))
    }

    fn by_finish(&self) -> Box<dyn Iterator<Item = PodView<'_>> + '_> {
        Box::new(self.by_finish.iter().map(|(_, at)| self.view_at(*at)))
    }

    fn namespaces_over(&self, cap: u32) -> Vec<(&str, u32)> {
        self.namespaces.over(cap)
    }

    fn nodes_over(&self, cap: u32) -> Vec<(&str, u32)> {
        self.nodes.over(cap)
    }
}
