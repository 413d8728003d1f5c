//! Objects of pods that came back.

use std::collections::BTreeMap;
use std::time::Duration;

use model::ids::PodUid;

use super::Invariant;
use super::read_pods::ReadPods;
use crate::history::{Event, Record, Removed};

/// Rules by which objects of an orphaned pod are removed.
pub(super) const ORPHAN_RULES: [&str; 2] = ["pod-is-gone", "pod-deleted"];

/// How long after an agent has read a pod it may still act on its earlier knowledge.
const KNOWN_AFTER: Duration = Duration::from_secs(10);

/// Once an agent has read that a pod is wanted, none of its objects is removed as an orphan's, whatever was
/// decided before, and however long earlier removals took.
#[derive(Debug, Default)]
pub(super) struct ReturnedPodsKeepObjects {
    read: ReadPods,
    /// The pods of containers and sandboxes, by their ids.
    owners: BTreeMap<String, PodUid>,
}

impl ReturnedPodsKeepObjects {
    fn removed(&self, id: &str, rule: &str, now: Duration) -> Result<(), String> {
        match self.owners.get(id).and_then(|uid| self.read.since(uid)) {
            Some(read) if now > read + KNOWN_AFTER => Err(format!(
                "{id} is removed by {rule}, and its pod was read as wanted at {read:?}"
            )),
            _ => Ok(()),
        }
    }
}

impl Invariant for ReturnedPodsKeepObjects {
    fn sentence(&self) -> &'static str {
        "objects of a pod are kept when the agent knows that it came back"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        self.read.take(record);
        match &record.event {
            Event::Container(one, _) => {
                self.owners.insert(one.id.to_string(), one.uid.clone());
            }
            Event::Sandbox(id, uid, _) => {
                self.owners.insert(id.to_string(), uid.clone());
            }
            Event::RemovalRequested(removed, rule) if ORPHAN_RULES.contains(rule) => {
                let id = match removed {
                    Removed::Container(id) => id.as_str(),
                    Removed::Sandbox(id) => id.as_str(),
                };
                return self.removed(id, rule, record.at);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use model::observed::ContainerState::{Exited, Running};
    use model::observed::SandboxState::NotReady;

    use super::*;
    use crate::invariants::tests::{container, pod, seconds, wanted};
    use crate::plan::Policy;

    #[test]
    fn finds_removal_of_objects_of_a_pod_that_came_back() {
        let read = || Event::OriginRead(pod(Policy::Never).origin());
        let again = || wanted(Policy::Never);
        let gone = || Event::Unwanted("u".into());
        let rows = [
            (vec![gone(), again(), read()], true),
            (vec![gone(), again()], false),
            (vec![gone(), read()], false),
            (vec![gone(), read(), again()], false),
            (vec![gone(), again(), read(), gone()], false),
            (vec![gone(), again(), read(), Event::AgentStarted(2)], false),
        ];
        let container_goes = |rule| Event::RemovalRequested(Removed::Container("a0".into()), rule);
        let sandbox_goes = |rule| Event::RemovalRequested(Removed::Sandbox("s".into()), rule);
        for (events, expected) in rows {
            let found = |removal: Event, after: u64| {
                let mut invariant = ReturnedPodsKeepObjects::default();
                let there = Event::Sandbox("s".into(), "u".into(), NotReady);
                let first = [again(), container("a", 0, Exited, Running), there];
                for event in first.into_iter().chain(events.clone()) {
                    invariant.read(&Record { at: seconds(1), event }).unwrap();
                }
                invariant.read(&Record { at: seconds(1 + after), event: removal }).is_err()
            };
            for rule in ORPHAN_RULES {
                assert_eq!(found(container_goes(rule), 11), expected, "{events:?}");
                assert_eq!(found(sandbox_goes(rule), 11), expected, "{events:?}");
                assert!(!found(sandbox_goes(rule), 9), "it has just read of it");
            }
            assert!(!found(sandbox_goes("sandbox-older"), 11));
        }
    }
}
