//! Pods whose objects were removed late or by a cap.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::ids::{ContainerId, PodUid};

use crate::history::{Event, Instance, Record, Removed};
use crate::invariants::caps::CAPS;
use crate::source_observation::SourceObservation;

/// Finds pods that came back while their objects were being removed, and whose objects were removed only later,
/// perhaps long after the agent gave up the call. Until then the pod seems to have run, and an agent may
/// consider it finished; it does not know that the objects will vanish. Whether such a pod runs again is
/// undefined, until the agent observes that the pod is removed.
#[derive(Debug, Default)]
pub(crate) struct LateRemovalExemption {
    source_observation: SourceObservation,
    wanted: BTreeSet<PodUid>,
    /// The pods of containers and sandboxes, by their ids.
    pods: BTreeMap<String, PodUid>,
    /// Objects whose removal was requested while their pod was not wanted.
    removal_requested: BTreeSet<String>,
    /// Pods that lost objects.
    exempt: BTreeSet<PodUid>,
}

impl LateRemovalExemption {
    /// Processes the next records.
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
                    self.removal_requested(id.as_str());
                }
                Event::RemovalRequested(Removed::Sandbox(id), _) => {
                    self.removal_requested(id.as_str());
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

    /// The exempt pods.
    pub(crate) fn pods(&self) -> BTreeSet<PodUid> {
        self.exempt.clone()
    }
}

/// Finds containers whose last instance was removed by a cap: no record is left that they ran, and the next
/// agent may run them again. If the agent observed the removal of their pod, they run again when it comes back.
#[derive(Debug, Clone, Default)]
pub(crate) struct Capped {
    source_observation: SourceObservation,
    containers: BTreeMap<ContainerId, Arc<Instance>>,
    taken: BTreeSet<(PodUid, Arc<str>)>,
}

impl Capped {
    /// Processes the next records.
    pub(crate) fn read(&mut self, records: &[Record]) {
        for record in records {
            self.take(&record.event);
        }
    }

    /// Processes an event.
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
    use crate::plan::{ActionKind, Plan, Policy};

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
            ActionKind::Write(pod) => Some(Arc::new(pod)),
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
        let sandbox_removal =
            || Event::RemovalRequested(Removed::Sandbox("s".into()), "pod-is-gone");
        let gone_sandbox = || Event::Gone(object("sandbox", "s"));
        let rows = [
            (vec![wanted(), exited(), unwanted(), removal_requested(), wanted(), gone()], true),
            (vec![wanted(), exited(), unwanted(), removal_requested(), gone(), wanted()], false),
            (vec![wanted(), exited(), removal_requested(), gone()], false),
            // The agent does not read the source before the pod is wanted again.
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
                vec![wanted(), sandbox(), unwanted(), sandbox_removal(), wanted(), gone_sandbox()],
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
            let Event::Container(one, _) = exited() else { panic!("not a container") };
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
