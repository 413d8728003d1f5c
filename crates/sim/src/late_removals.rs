//! Pods that lost what they were judged by.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::ids::{ContainerId, PodUid};

use crate::history::{Event, Instance, Record, Removed};
use crate::invariants::caps::CAPS;
use crate::source_observation::SourceObservation;

/// Finds pods that came back while something of them was being removed, which was gone only later, perhaps
/// long after the agent had given the removal up. Until then the pod looks as if it had run, and an agent
/// that sees it finished is right; it does not know that this will vanish. Whether such a pod runs again is
/// left to chance, until the agent hears that nobody wants it.
#[derive(Debug, Default)]
pub(crate) struct LateRemovalExemption {
    source_observation: SourceObservation,
    wanted: BTreeSet<PodUid>,
    /// Whose containers and sandboxes are, by their ids.
    pods: BTreeMap<String, PodUid>,
    /// What was to be removed when nobody wanted its pod.
    removal_requested: BTreeSet<String>,
    /// Those that lost something.
    exempt: BTreeSet<PodUid>,
}

impl LateRemovalExemption {
    /// Takes the next records in.
    pub(crate) fn read(&mut self, records: &[Record]) {
        for record in records {
            for uid in self.source_observation.observe(&record.event) {
                self.exempt.remove(&uid);
            }
            match &record.event {
                Event::Wanted(uid, _) => {
                    self.wanted.insert(uid.clone());
                }
                Event::Unwanted(uid) => {
                    self.wanted.remove(uid);
                }
                Event::RemovalRequested(Removed::Container(id), _) => {
                    self.removal_requested(id.as_str())
                }
                Event::RemovalRequested(Removed::Sandbox(id), _) => {
                    self.removal_requested(id.as_str())
                }
                Event::Container(one, _) => {
                    self.pods.insert(one.id.to_string(), one.uid.clone());
                }
                Event::Sandbox(id, uid, _) => {
                    self.pods.insert(id.to_string(), uid.clone());
                }
                Event::Gone(object) => {
                    let owner = self.pods.get(&object.id).filter(|uid| self.wanted.contains(*uid));
                    if let Some(uid) = owner.filter(|_| self.removal_requested.contains(&object.id))
                    {
                        self.exempt.insert(uid.clone());
                    }
                }
                _ => {}
            }
        }
    }

    fn removal_requested(&mut self, id: &str) {
        if self.pods.get(id).is_some_and(|uid| !self.wanted.contains(uid)) {
            self.removal_requested.insert(id.to_owned());
        }
    }

    /// Those that are wanted now.
    pub(crate) fn pods(&self) -> BTreeSet<PodUid> {
        self.exempt.clone()
    }
}

/// Finds containers of which a cap took the last instance: of those nobody knows that they ran, and whoever looks
/// after them next may let them run again. Where the agent has heard that nobody wants their pod, they do so when it
/// comes back.
#[derive(Debug, Clone, Default)]
pub(crate) struct Capped {
    source_observation: SourceObservation,
    containers: BTreeMap<ContainerId, Arc<Instance>>,
    taken: BTreeSet<(PodUid, Arc<str>)>,
}

impl Capped {
    /// Takes the next records in.
    pub(crate) fn read(&mut self, records: &[Record]) {
        for record in records {
            self.take(&record.event);
        }
    }

    /// Takes an event in.
    pub(crate) fn take(&mut self, event: &Event) {
        let gone = self.source_observation.observe(event);
        self.taken.retain(|(of, _)| !gone.contains(of));
        match event {
            Event::Container(one, _) => {
                self.containers.insert(one.id.clone(), Arc::clone(one));
            }
            Event::RemovalRequested(Removed::Container(id), rule) if CAPS.contains(rule) => {
                let Some(one) = self.containers.get(id) else { return };
                if !self.containers.values().any(|other| other.succeeds(one)) {
                    self.taken.insert((one.uid.clone(), Arc::clone(&one.name)));
                }
            }
            _ => {}
        }
    }

    /// The containers.
    pub(crate) fn containers(&self) -> BTreeSet<(PodUid, Arc<str>)> {
        self.taken.clone()
    }

    /// Their pods.
    pub(crate) fn pods(&self) -> BTreeSet<PodUid> {
        self.taken.iter().map(|(uid, _)| uid.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::observed::{ContainerState, SandboxState};

    use super::*;
    use crate::history::ObjectRef;
    use crate::plan::{Plan, Policy, What};

    fn exited() -> Event {
        let one = Instance {
            id: "c".into(),
            sandbox: "s".into(),
            uid: "u".into(),
            name: "a".into(),
            attempt: 0,
            definition: String::new(),
            state: Some(ContainerState::Exited),
            exit_code: 0,
            created: Duration::ZERO,
            started: None,
            finished: None,
        };
        Event::Container(Arc::new(one), None)
    }

    #[test]
    fn only_late_removals_are_exempt() {
        let plan = Plan::new(1).steps.into_iter().find_map(|step| match step.what {
            What::Write(pod) => Some(Arc::new(pod)),
            _ => None,
        });
        let pod = plan.expect("every plan has pods");
        let wanted = || Event::Wanted("u".into(), Arc::clone(&pod));
        let unwanted = || Event::Unwanted("u".into());
        let read = || Event::OriginRead(pod.origin());
        let object = |kind: &str, id: &str| ObjectRef { kind: kind.to_owned(), id: id.to_owned() };
        let (removal_requested, gone) = (
            || Event::RemovalRequested(Removed::Container("c".into()), "pod-is-gone"),
            || Event::Gone(object("container", "c")),
        );
        let sandbox = || Event::Sandbox("s".into(), "u".into(), SandboxState::NotReady);
        let asked_sandbox = || Event::RemovalRequested(Removed::Sandbox("s".into()), "pod-is-gone");
        let gone_sandbox = || Event::Gone(object("sandbox", "s"));
        let rows = [
            (vec![wanted(), exited(), unwanted(), removal_requested(), wanted(), gone()], true),
            (vec![wanted(), exited(), unwanted(), removal_requested(), gone(), wanted()], false),
            (vec![wanted(), exited(), removal_requested(), gone()], false),
            // The agent does not look before somebody wants it again.
            (
                vec![
                    wanted(),
                    exited(),
                    unwanted(),
                    removal_requested(),
                    wanted(),
                    gone(),
                    unwanted(),
                ],
                true,
            ),
            (
                vec![
                    wanted(),
                    exited(),
                    unwanted(),
                    removal_requested(),
                    wanted(),
                    gone(),
                    unwanted(),
                    read(),
                ],
                false,
            ),
            (
                vec![wanted(), sandbox(), unwanted(), asked_sandbox(), wanted(), gone_sandbox()],
                true,
            ),
        ];
        for (row, (events, expected)) in rows.into_iter().enumerate() {
            let mut exemption = LateRemovalExemption::default();
            let at = Duration::ZERO;
            let records: Vec<_> = events.into_iter().map(|event| Record { at, event }).collect();
            exemption.read(&records);
            assert_eq!(!exemption.pods().is_empty(), expected, "row {row}");
        }
    }

    #[test]
    fn cap_that_removes_the_last_instance_exempts_its_pod() {
        let newer = || {
            let Event::Container(one, _) = exited() else { panic!("it is a container") };
            let one = Instance { id: "d".into(), attempt: 1, ..(*one).clone() };
            Event::Container(Arc::new(one), None)
        };
        let goes = |rule| Event::RemovalRequested(Removed::Container("c".into()), rule);
        let pod = Arc::new(crate::settled::tests::pod(Policy::Always));
        let wanted = || Event::Wanted("u".into(), Arc::clone(&pod));
        let gone = || Event::Unwanted("u".into());
        let read = || Event::OriginRead(pod.origin());
        let rows = [
            (vec![exited(), goes("per-container-cap")], 1),
            (vec![exited(), goes("node-cap-oldest")], 1),
            (vec![exited(), newer(), goes("node-cap-share")], 0),
            (vec![exited(), goes("pod-is-gone")], 0),
            (vec![wanted(), exited(), goes("per-container-cap"), gone()], 1),
            (vec![wanted(), exited(), goes("per-container-cap"), gone(), read()], 0),
            (vec![wanted(), exited(), goes("per-container-cap"), gone(), wanted(), read()], 1),
        ];
        for (row, (events, expected)) in rows.into_iter().enumerate() {
            let mut capped = Capped::default();
            for event in &events {
                capped.take(event);
            }
            assert_eq!(
                (capped.containers().len(), capped.pods().len()),
                (expected, expected),
                "{row}"
            );
        }
    }
}
