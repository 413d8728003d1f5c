//! Containers of calls that the agent cancelled.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::ids::{ContainerId, PodUid};
use model::observed::ContainerState;

use super::Invariant;
use crate::history::{ActionTarget, Event, Instance, Record, Removed, ReservedName};

/// A created container that never started, and that the agent has observed, is started, or removed to be
/// replaced. An agent that has not observed it, also because the response was lost, requests its number and
/// gets the error that it is taken, or another number.
#[derive(Debug, Default)]
pub(super) struct LateCreationsAreUsed {
    /// The instance with the highest number of each name.
    latest: BTreeMap<(PodUid, Arc<str>), Arc<Instance>>,
    /// Instances that this agent has observed.
    seen: BTreeSet<ContainerId>,
    /// Instances whose removal was requested.
    removal_requested: BTreeSet<ContainerId>,
    /// Calls in progress for pods. Observations of the pod during a call count only after its end: the agent
    /// decided before.
    acting: Vec<ActionTarget>,
    /// Reads with a fault in progress: the agent may be within such work.
    faulty_reads: usize,
    /// The end of the last of these calls. A worker that waited for it decides by its result, whatever is
    /// observed at that time.
    read_fault_until: Option<Duration>,
    pods: BTreeMap<ContainerId, PodUid>,
}

impl LateCreationsAreUsed {
    fn observed(&mut self, id: &ContainerId, at: Duration) {
        let pod = self.pods.get(id);
        let is_for_it = |acted: &ActionTarget| match acted {
            ActionTarget::Pod(of) => Some(of) == pod,
            ActionTarget::Container(other) => self.pods.get(other) == pod,
            ActionTarget::Any => true,
        };
        let is_faulty = self.faulty_reads > 0 || self.read_fault_until == Some(at);
        if !is_faulty && !self.acting.iter().any(is_for_it) {
            self.seen.insert(id.clone());
        }
    }

    fn changed(&mut self, one: &Arc<Instance>) {
        self.pods.insert(one.id.clone(), one.uid.clone());
        let key = (one.uid.clone(), Arc::clone(&one.name));
        let before = self.latest.get(&key);
        if one.state.is_none() {
            if before.is_some_and(|before| before.id == one.id) {
                self.latest.remove(&key);
            }
        } else if before.is_none_or(|before| before.attempt <= one.attempt) {
            self.latest.insert(key, Arc::clone(one));
        }
    }

    fn creation_requested(&self, reserved: &ReservedName) -> Result<(), String> {
        let Some(name) = &reserved.name else { return Ok(()) };
        let Some(latest) = self.latest.get(&(reserved.uid.clone(), Arc::clone(name))) else {
            return Ok(());
        };
        let waits = latest.state == Some(ContainerState::Created)
            && self.seen.contains(&latest.id)
            && !self.removal_requested.contains(&latest.id);
        if waits && latest.attempt != reserved.attempt {
            return Err(format!(
                "number {} is created while {} waits",
                reserved.attempt, latest.id
            ));
        }
        Ok(())
    }
}

impl Invariant for LateCreationsAreUsed {
    fn sentence(&self) -> &'static str {
        "a created container is started or removed before another one is created"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::AgentStarted(_) => {
                self.seen.clear();
                self.acting.clear();
                self.faulty_reads = 0;
            }
            Event::ReadFaultBegan => self.faulty_reads += 1,
            Event::ReadFaultEnded => {
                self.faulty_reads = self.faulty_reads.saturating_sub(1);
                self.read_fault_until = Some(record.at);
            }
            Event::ActionBegan(acted) => self.acting.push(acted.clone()),
            Event::ActionEnded(acted) => {
                if let Some(at) = self.acting.iter().position(|other| other == acted) {
                    self.acting.swap_remove(at);
                }
            }
            Event::Container(one, _) => self.changed(one),
            Event::ContainerObserved(id, _) => self.observed(id, record.at),
            Event::RemovalRequested(Removed::Container(id), _) => {
                self.removal_requested.insert(id.clone());
            }
            Event::CreationRequested(reserved) => return self.creation_requested(reserved),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use model::observed::ContainerState::{Created, Exited, Running};

    use super::*;
    use crate::invariants::tests::{broken, container, with};

    #[test]
    fn finds_second_instance_in_addition_to_a_created_one() {
        let sentence =
            Some("a created container is started or removed before another one is created");
        let make = |number| {
            let (uid, name) = ("u".into(), Some("a".into()));
            Event::CreationRequested(ReservedName { uid, name, attempt: number })
        };
        let observed = || Event::ContainerObserved("a3".into(), false);
        let again = || Event::AgentStarted(2);
        let other = || container("b", 0, Created, Created);
        let starts_other = || Event::ActionBegan(ActionTarget::Container("b0".into()));
        let started_other = || Event::ActionEnded(ActionTarget::Container("b0".into()));
        let other_pod = || Event::ActionBegan(ActionTarget::Pod("another".into()));
        let runs = || container("b", 0, Running, Created);
        let waits = || vec![container("a", 3, Created, Created), observed()];
        let remove = || Event::RemovalRequested(Removed::Container("a3".into()), "never-started");
        let gone = || with(container("a", 3, Created, Created), |one| one.state = None);
        let rows = [
            (vec![make(4)], sentence),
            (vec![make(0)], sentence),
            // Its number is taken, and the error reveals it.
            (vec![make(3)], None),
            (vec![remove(), make(4)], None),
            (vec![gone(), make(4)], None),
            (vec![container("a", 3, Running, Created), make(4)], None),
            (vec![container("a", 5, Exited, Running), make(6)], None),
            // Another agent has not observed it yet.
            (vec![again(), make(4)], None),
            (vec![again(), observed(), make(4)], sentence),
            // Nor an agent that has decided, and is starting another container of the pod or pulling an
            // image.
            (vec![again(), other(), starts_other(), observed(), make(4)], None),
            (vec![again(), other(), starts_other(), runs(), observed(), make(4)], None),
            (
                vec![again(), other(), starts_other(), started_other(), observed(), make(4)],
                sentence,
            ),
            (
                vec![
                    again(),
                    Event::ActionBegan(ActionTarget::Pod("u".into())),
                    observed(),
                    make(4),
                ],
                None,
            ),
            (vec![again(), Event::ActionBegan(ActionTarget::Any), observed(), make(4)], None),
            (vec![again(), other_pod(), observed(), make(4)], sentence),
            (vec![again(), Event::ReadFaultBegan, observed(), make(4)], None),
            (
                vec![again(), Event::ReadFaultBegan, Event::ReadFaultEnded, observed(), make(4)],
                sentence,
            ),
            (vec![other(), starts_other(), again(), observed(), make(4)], sentence),
        ];
        for (events, expected) in rows {
            let all = waits().into_iter().chain(events.clone());
            assert_eq!(broken(all), expected, "{events:?}");
        }
        let at_once = [Event::ReadFaultBegan, Event::ReadFaultEnded, observed(), make(4)];
        let all = [container("a", 3, Created, Created)].into_iter().chain(at_once);
        let mut invariant = LateCreationsAreUsed::default();
        for event in all {
            invariant.read(&Record { at: Duration::ZERO, event }).unwrap();
        }
    }
}
