//! Orphaned pods that were terminated.

use std::collections::{BTreeMap, BTreeSet};

use model::ids::{ContainerId, PodUid, SandboxId};
use model::observed::SandboxState;

use super::Invariant;
use crate::history::{Event, Record};

/// The only ready sandbox of a pod is stopped only to terminate the pod. Once an agent got the response that
/// such a sandbox of an orphaned pod has stopped, it creates and starts nothing of the pod any more; it stops
/// the sandbox once more before its removal. A pod that is wanted again starts over, and may have to be
/// terminated first.
#[derive(Debug, Default)]
pub(super) struct EndedOrphans {
    unwanted: BTreeSet<PodUid>,
    /// Pods that came back, until their first sandbox is created: an agent that observed it starts over,
    /// whether or not they are wanted by then.
    coming_back: BTreeSet<PodUid>,
    containers: BTreeMap<ContainerId, PodUid>,
    sandboxes: BTreeMap<SandboxId, Seen>,
    /// Sandboxes that are being stopped to terminate their pods.
    ending: BTreeSet<SandboxId>,
    /// Pods that this agent has terminated.
    ended: BTreeSet<PodUid>,
}

#[derive(Debug)]
struct Seen {
    uid: PodUid,
    ready: bool,
    /// Whether it was never ready at the same time as another one.
    alone: bool,
}

impl EndedOrphans {
    fn sandbox_changed(&mut self, id: &SandboxId, uid: &PodUid, state: SandboxState) {
        let ready = state == SandboxState::Ready;
        if let Some(seen) = self.sandboxes.get_mut(id) {
            seen.ready = ready;
            return;
        }
        let mut alone = true;
        let others = self.sandboxes.values_mut().filter(|seen| seen.uid == *uid && seen.ready);
        for other in others {
            (other.alone, alone) = (false, false);
        }
        self.sandboxes.insert(id.clone(), Seen { uid: uid.clone(), ready, alone });
        // A late sandbox must be stopped too.
        self.ended.remove(uid);
    }

    fn stop_requested_for(&mut self, id: &SandboxId) {
        let Some(Seen { uid, ready, alone }) = self.sandboxes.get(id) else { return };
        let goes = self.unwanted.contains(uid) && !self.coming_back.contains(uid);
        if goes && *ready && *alone {
            self.ending.insert(id.clone());
        }
    }

    fn stopped(&mut self, id: &SandboxId) {
        let Some(seen) = self.sandboxes.get(id) else { return };
        if self.ending.remove(id) {
            self.ended.insert(seen.uid.clone());
        }
    }

    /// The end of a pod does not count when it is wanted again.
    fn wanted(&mut self, uid: &PodUid) {
        if self.unwanted.remove(uid) {
            self.coming_back.insert(uid.clone());
        }
        self.ended.remove(uid);
        let sandboxes = &self.sandboxes;
        self.ending.retain(|id| sandboxes.get(id).is_none_or(|seen| seen.uid != *uid));
    }
}

impl Invariant for EndedOrphans {
    fn sentence(&self) -> &'static str {
        "a terminated orphan is not synced again"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::AgentStarted(_) => {
                self.ending.clear();
                self.ended.clear();
            }
            Event::Wanted(uid, _) => self.wanted(uid),
            Event::Unwanted(uid) => {
                self.unwanted.insert(uid.clone());
            }
            Event::Container(one, _) => {
                self.containers.insert(one.id.clone(), one.uid.clone());
            }
            Event::Sandbox(id, uid, state) => self.sandbox_changed(id, uid, *state),
            Event::Gone(object) if object.kind == "sandbox" => {
                self.sandboxes.remove(&SandboxId::from(object.id.as_str()));
            }
            Event::SandboxStopRequested(id) => self.stop_requested_for(id),
            Event::SandboxStopped(id) => self.stopped(id),
            Event::CreationRequested(reserved) => {
                if self.ended.contains(&reserved.uid) {
                    let what = reserved.name.as_deref().unwrap_or("a sandbox");
                    return Err(format!(
                        "{what} is created for {}, which was terminated",
                        reserved.uid
                    ));
                }
                if reserved.name.is_none() {
                    self.coming_back.remove(&reserved.uid);
                }
            }
            Event::StartRequested(id) => {
                let owner = self.containers.get(id).filter(|uid| self.ended.contains(*uid));
                if let Some(uid) = owner {
                    return Err(format!("{id} of {uid}, which was terminated, is started"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::observed::ContainerState::Created;
    use model::observed::SandboxState::{NotReady, Ready};

    use super::*;
    use crate::history::ReservedName;
    use crate::invariants::tests::{broken, container, wanted};
    use crate::plan::Policy;

    const SENTENCE: Option<&str> = Some("a terminated orphan is not synced again");

    fn sandbox(id: &str, state: SandboxState) -> Event {
        Event::Sandbox(id.into(), "u".into(), state)
    }

    fn make(name: Option<&str>) -> Event {
        Event::CreationRequested(ReservedName {
            uid: "u".into(),
            name: name.map(Arc::from),
            attempt: 1,
        })
    }

    fn again() -> Event {
        wanted(Policy::Always)
    }

    fn gone() -> Event {
        Event::Unwanted("u".into())
    }

    fn stop_requested() -> Event {
        Event::SandboxStopRequested("s".into())
    }

    fn stop_answered() -> Event {
        Event::SandboxStopped("s".into())
    }

    /// A pod runs, is orphaned, and its sandbox is stopped.
    fn ended() -> Vec<Event> {
        let runs = [again(), sandbox("s", Ready), container("x", 0, Created, Created)];
        let ends = [gone(), stop_requested(), sandbox("s", NotReady), stop_answered()];
        runs.into_iter().chain(ends).collect()
    }

    #[test]
    fn finds_any_work_for_an_ended_orphan() {
        let start = || Event::StartRequested("x0".into());
        assert_eq!(broken(ended().into_iter().chain([stop_requested()])), None, "stopped again");
        for deed in [make(None), make(Some("x")), start()] {
            assert_eq!(broken(ended().into_iter().chain([deed.clone()])), SENTENCE, "{deed:?}");
            let excuses = [
                // Another agent does not know the actions of this one.
                vec![Event::AgentStarted(2)],
                vec![again()],
                // A late sandbox.
                vec![sandbox("late", Ready)],
            ];
            for excuse in excuses {
                let all = ended().into_iter().chain(excuse.clone()).chain([deed.clone()]);
                assert_eq!(broken(all), None, "{excuse:?} {deed:?}");
            }
        }
    }

    #[test]
    fn only_stopping_the_current_sandbox_ends_the_pod() {
        let made = |events: Vec<Event>| broken(events.into_iter().chain([make(None)]));
        assert_eq!(
            made(vec![again(), sandbox("s", Ready), stop_requested(), stop_answered()]),
            None,
            "it is wanted"
        );
        let dead = vec![again(), sandbox("s", Ready), sandbox("s", NotReady), gone()];
        let dead = dead.into_iter().chain([stop_requested(), stop_answered()]).collect();
        assert_eq!(made(dead), None, "replaced by an agent that has not observed the removal");
        let two = vec![
            again(),
            sandbox("t", Ready),
            sandbox("s", Ready),
            gone(),
            stop_requested(),
            stop_answered(),
        ];
        assert_eq!(made(two), None, "it may be a surplus sandbox");
        let next = vec![again(), sandbox("t", Ready), sandbox("t", NotReady), sandbox("s", Ready)];
        let next = next.into_iter().chain([gone(), stop_requested(), stop_answered()]).collect();
        assert_eq!(made(next), SENTENCE, "the other one had stopped");
    }

    #[test]
    fn returned_pod_starts_over() {
        let first = vec![
            again(),
            sandbox("s", Ready),
            gone(),
            again(),
            gone(),
            stop_requested(),
            stop_answered(),
        ];
        assert_eq!(broken(first.iter().cloned().chain([make(None)])), None);
        // It has started over, and is terminated for good.
        let second = [
            make(None),
            sandbox("s2", Ready),
            Event::SandboxStopRequested("s2".into()),
            Event::SandboxStopped("s2".into()),
            make(None),
        ];
        let before = first.into_iter().chain([sandbox("s", NotReady)]);
        assert_eq!(broken(before.chain(second)), SENTENCE);
    }
}
