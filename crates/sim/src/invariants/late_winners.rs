//! Containers that a call made which was given up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::ids::{ContainerId, PodUid};
use model::observed::ContainerState;

use super::Invariant;
use crate::history::{Event, Instance, Maker, Record, Removed};

/// What was made and never started, and that the agent has seen, is started, or removed to make way.
/// An agent that has not seen it, also because the answer got lost, asks for its number and hears that it is
/// taken, or for another.
#[derive(Debug, Default)]
pub(super) struct LateWinnersAreUsed {
    /// The instance with the highest number of each name.
    latest: BTreeMap<(PodUid, Arc<str>), Arc<Instance>>,
    /// Those that this agent has seen.
    seen: BTreeSet<ContainerId>,
    /// Those that were to be removed.
    asked: BTreeSet<ContainerId>,
    /// What the agent is about to start, and its pod: what it sees of the pod meanwhile counts when that is over.
    starting: BTreeMap<ContainerId, PodUid>,
    pods: BTreeMap<ContainerId, PodUid>,
}

impl LateWinnersAreUsed {
    fn told(&mut self, id: &ContainerId) {
        let pod = self.pods.get(id);
        if !self.starting.values().any(|starting| Some(starting) == pod) {
            self.seen.insert(id.clone());
        }
    }

    fn changed(&mut self, one: &Arc<Instance>) {
        self.pods.insert(one.id.clone(), one.uid.clone());
        if one.state != Some(ContainerState::Created) {
            self.starting.remove(&one.id);
        }
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

    fn make_asked(&self, maker: &Maker) -> Result<(), String> {
        let Some(name) = &maker.name else { return Ok(()) };
        let Some(latest) = self.latest.get(&(maker.uid.clone(), Arc::clone(name))) else {
            return Ok(());
        };
        let waits = latest.state == Some(ContainerState::Created)
            && self.seen.contains(&latest.id)
            && !self.asked.contains(&latest.id);
        if waits && latest.attempt != maker.attempt {
            return Err(format!("number {} is made while {} waits", maker.attempt, latest.id));
        }
        Ok(())
    }
}

impl Invariant for LateWinnersAreUsed {
    fn sentence(&self) -> &'static str {
        "what was made and never started is started or removed before another one is made"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::AgentStarted(_) => {
                self.seen.clear();
                self.starting.clear();
            }
            Event::StartAsked(id) => {
                if let Some(pod) = self.pods.get(id) {
                    self.starting.insert(id.clone(), pod.clone());
                }
            }
            Event::Container(one, _) => self.changed(one),
            Event::Told(id) => self.told(id),
            Event::RemoveAsked(Removed::Container(id), _) => {
                self.asked.insert(id.clone());
            }
            Event::MakeAsked(maker) => return self.make_asked(maker),
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
    fn making_another_one_beside_what_waits_is_found() {
        let sentence = Some(
            "what was made and never started is started or removed before another one is made",
        );
        let make = |number| {
            let (uid, name) = ("u".into(), Some("a".into()));
            Event::MakeAsked(Maker { uid, name, attempt: number })
        };
        let told = || Event::Told("a3".into());
        let other = || container("b", 0, Created, Created);
        let start_other = || Event::StartAsked("b0".into());
        let runs = || container("b", 0, Running, Created);
        let waits = || vec![container("a", 3, Created, Created), told()];
        let remove = || Event::RemoveAsked(Removed::Container("a3".into()), "never-started");
        let gone = || with(container("a", 3, Created, Created), |one| one.state = None);
        let rows = [
            (vec![make(4)], sentence),
            (vec![make(0)], sentence),
            // Its number is taken, and it is found by that.
            (vec![make(3)], None),
            (vec![remove(), make(4)], None),
            (vec![gone(), make(4)], None),
            (vec![container("a", 3, Running, Created), make(4)], None),
            (vec![container("a", 5, Exited, Running), make(6)], None),
            // Another agent has not seen it yet.
            (vec![Event::AgentStarted(2), make(4)], None),
            (vec![Event::AgentStarted(2), told(), make(4)], sentence),
            // Nor has one that lost the answer.
            (vec![Event::AgentStarted(2), Event::Looked("a3".into(), false), make(4)], None),
            // Nor one that has made up its mind, and just starts another container of the pod.
            (vec![Event::AgentStarted(2), other(), start_other(), told(), make(4)], None),
            (
                vec![Event::AgentStarted(2), other(), start_other(), runs(), told(), make(4)],
                sentence,
            ),
        ];
        for (events, expected) in rows {
            let all = waits().into_iter().chain(events.clone());
            assert_eq!(broken(all), expected, "{events:?}");
        }
    }
}
