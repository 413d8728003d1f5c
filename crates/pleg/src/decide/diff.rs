//! Compares a pod with its last record.

use std::collections::BTreeMap;

use model::fingerprint::{Fingerprint, Mark};
use model::ids::ObjectId;
use model::lifecycle::LifecycleEvent;
use model::observed::{ContainerState, RuntimePod, SandboxState};

/// State of a container or sandbox; only states that lifecycle events distinguish. An object that
/// the runtime does not list has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectState {
    /// A live container or a ready sandbox.
    Running,
    /// An ended container or a sandbox that is not ready.
    Exited,
    /// A container that is created and not started, or whose state the runtime does not know.
    Unknown,
}

impl From<ContainerState> for ObjectState {
    fn from(state: ContainerState) -> Self {
        match state {
            ContainerState::Running => Self::Running,
            ContainerState::Exited => Self::Exited,
            ContainerState::Created | ContainerState::Unknown => Self::Unknown,
        }
    }
}

impl From<SandboxState> for ObjectState {
    fn from(state: SandboxState) -> Self {
        match state {
            SandboxState::Ready => Self::Running,
            SandboxState::NotReady => Self::Exited,
        }
    }
}

/// The record of a pod between two lists: only a state per object, so that a thousand idle pods cost
/// little. An empty record means that the runtime has no object of the pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodRecord(Box<[(ObjectId, ObjectState)]>);

impl PodRecord {
    /// Whether the runtime has no container or sandbox of the pod.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The state of an object, if the runtime lists it.
    pub fn state(&self, id: &ObjectId) -> Option<ObjectState> {
        let found = self.0.binary_search_by(|(known, _)| known.cmp(id));
        found.ok().map(|position| self.0[position].1)
    }

    /// All objects, in the order of their ids.
    fn ids(&self) -> impl Iterator<Item = &ObjectId> {
        self.0.iter().map(|(id, _)| id)
    }

    /// Adds all objects to a fingerprint.
    pub fn add_to(&self, fingerprint: &mut Fingerprint) {
        for (id, state) in &*self.0 {
            let (id, mark) = match (id, state) {
                (_, ObjectState::Unknown) => (id.as_str(), Mark::Unsettled),
                (ObjectId::Sandbox(id), ObjectState::Running) => (id.as_str(), Mark::ReadySandbox),
                (ObjectId::Sandbox(id), ObjectState::Exited) => (id.as_str(), Mark::DeadSandbox),
                (ObjectId::Container(id), ObjectState::Running) => {
                    (id.as_str(), Mark::RunningContainer)
                }
                (ObjectId::Container(id), ObjectState::Exited) => {
                    (id.as_str(), Mark::EndedContainer)
                }
            };
            fingerprint.add(id.as_bytes(), mark);
        }
    }
}

impl FromIterator<(ObjectId, ObjectState)> for PodRecord {
    fn from_iter<T: IntoIterator<Item = (ObjectId, ObjectState)>>(states: T) -> Self {
        // Each once and in order.
        let states: BTreeMap<_, _> = states.into_iter().collect();
        Self(states.into_iter().collect())
    }
}

impl From<&RuntimePod> for PodRecord {
    fn from(pod: &RuntimePod) -> Self {
        let sandboxes = pod
            .sandboxes
            .iter()
            .map(|sandbox| (ObjectId::Sandbox(sandbox.id.clone()), sandbox.state.into()));
        let containers = pod
            .containers
            .iter()
            .map(|container| (ObjectId::Container(container.id.clone()), container.state.into()));
        sandboxes.chain(containers).collect()
    }
}

/// The lifecycle events that lead from `old` to `new`, in the order of the object ids; upstream's
/// `computeEvents`. An object that vanished while it was not known to be dead died first.
pub fn diff(old: &PodRecord, new: &PodRecord) -> Vec<LifecycleEvent> {
    let mut events = Vec::new();
    let vanished = old.ids().filter(|id| new.state(id).is_none());
    let mut ids: Vec<&ObjectId> = new.ids().chain(vanished).collect();
    ids.sort();
    for id in ids {
        changes(id, old.state(id), new.state(id), &mut events);
    }
    events
}

fn changes(
    id: &ObjectId,
    old: Option<ObjectState>,
    new: Option<ObjectState>,
    events: &mut Vec<LifecycleEvent>,
) {
    if old == new {
        return;
    }
    match new {
        Some(ObjectState::Running) => events.push(LifecycleEvent::Started(id.clone())),
        Some(ObjectState::Exited) => events.push(LifecycleEvent::Died(id.clone())),
        Some(ObjectState::Unknown) => events.push(LifecycleEvent::Changed(id.clone())),
        None => {
            if old != Some(ObjectState::Exited) {
                events.push(LifecycleEvent::Died(id.clone()));
            }
            events.push(LifecycleEvent::Removed(id.clone()));
        }
    }
}

#[cfg(test)]
#[path = "diff_tests.rs"]
mod tests;
