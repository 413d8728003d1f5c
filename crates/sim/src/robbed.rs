//! Pods that lost what they were judged by.

use std::collections::{BTreeMap, BTreeSet};

use model::ids::{ContainerId, PodUid};

use crate::history::{Event, Record, Removed};

/// Finds pods that came back while something of them was being removed, which was gone only later, perhaps
/// long after the agent had given the removal up. Until then the pod looks as if it had run, and an agent
/// that sees it finished is right; it does not know that this will vanish. Whether such a pod runs again is
/// left to chance.
#[derive(Debug, Default)]
pub(crate) struct Robbed {
    wanted: BTreeSet<PodUid>,
    pods: BTreeMap<ContainerId, PodUid>,
    /// What was to be removed when nobody wanted its pod.
    asked: BTreeSet<ContainerId>,
    robbed: BTreeSet<PodUid>,
}

impl Robbed {
    /// Takes the next records in.
    pub(crate) fn read(&mut self, records: &[Record]) {
        for record in records {
            match &record.event {
                Event::Wanted(uid, _) => {
                    self.wanted.insert(uid.clone());
                }
                Event::Unwanted(uid) => {
                    self.wanted.remove(uid);
                    self.robbed.remove(uid);
                }
                Event::RemoveAsked(Removed::Container(id), _) => {
                    if self.pods.get(id).is_some_and(|uid| !self.wanted.contains(uid)) {
                        self.asked.insert(id.clone());
                    }
                }
                Event::Container(one, _) => {
                    let is_robbed = one.state.is_none()
                        && self.asked.contains(&one.id)
                        && self.wanted.contains(&one.uid);
                    if is_robbed {
                        self.robbed.insert(one.uid.clone());
                    }
                    self.pods.insert(one.id.clone(), one.uid.clone());
                }
                _ => {}
            }
        }
    }

    /// Those that are wanted now.
    pub(crate) fn pods(&self) -> BTreeSet<PodUid> {
        self.robbed.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::history::Instance;
    use crate::plan::{Plan, What};

    fn container(state: Option<model::observed::ContainerState>) -> Event {
        let one = Instance {
            id: "c".into(),
            sandbox: "s".into(),
            uid: "u".into(),
            name: "a".into(),
            attempt: 0,
            definition: String::new(),
            state,
            exit_code: 0,
            started: None,
            finished: None,
        };
        Event::Container(Arc::new(one), None)
    }

    #[test]
    fn only_what_goes_late_robs_a_pod() {
        let plan = Plan::new(1).steps.into_iter().find_map(|step| match step.what {
            What::Write(pod) => Some(Arc::new(pod)),
            _ => None,
        });
        let pod = plan.expect("every plan has pods");
        let wanted = || Event::Wanted("u".into(), Arc::clone(&pod));
        let unwanted = || Event::Unwanted("u".into());
        let exited = || container(Some(model::observed::ContainerState::Exited));
        let (asked, gone) = (
            || Event::RemoveAsked(Removed::Container("c".into()), "pod-is-gone"),
            || container(None),
        );
        let rows = [
            (vec![wanted(), exited(), unwanted(), asked(), wanted(), gone()], true),
            (vec![wanted(), exited(), unwanted(), asked(), gone(), wanted()], false),
            (vec![wanted(), exited(), asked(), gone()], false),
            (vec![wanted(), exited(), unwanted(), asked(), wanted(), gone(), unwanted()], false),
        ];
        for (row, (events, expected)) in rows.into_iter().enumerate() {
            let mut robbed = Robbed::default();
            let at = Duration::ZERO;
            let records: Vec<_> = events.into_iter().map(|event| Record { at, event }).collect();
            robbed.read(&records);
            assert_eq!(!robbed.pods().is_empty(), expected, "row {row}");
        }
    }
}
