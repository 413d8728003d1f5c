//! Stopping sandboxes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::ids::{ContainerId, PodUid, SandboxId};

use super::Invariant;
use crate::history::{Event, Instance, Record};
use crate::plan::PodPlan;

/// A runtime kills the containers of a sandbox that it stops, without a hook and without a grace: they must be
/// stopped before. This does not hold for a container that is first observed running while its pod is
/// terminating; and a read with a fault is not used.
#[derive(Debug, Default)]
pub(super) struct SandboxesStopLast {
    pods: BTreeMap<PodUid, Arc<PodPlan>>,
    containers: BTreeMap<ContainerId, Arc<Instance>>,
    /// Running containers according to the last read of this agent, and since when.
    seen_running: BTreeMap<ContainerId, Duration>,
    /// Reads with a fault in progress.
    faulty_reads: usize,
    /// Containers that this agent has stopped.
    stop_requested: BTreeSet<ContainerId>,
    /// When it first stopped a container of a pod, or ran a hook for that, since it last started one.
    ending: BTreeMap<PodUid, Duration>,
}

impl SandboxesStopLast {
    fn observed(&mut self, id: &ContainerId, runs: bool, at: Duration) {
        if !runs {
            self.seen_running.remove(id);
        } else if self.faulty_reads == 0 {
            self.seen_running.entry(id.clone()).or_insert(at);
        }
    }

    /// Whether a command is the preStop hook of a container.
    fn is_before_the_end(&self, id: &ContainerId, command: &[String]) -> bool {
        let one = self.containers.get(id);
        let plan = one.and_then(|one| self.pods.get(&one.uid)?.container(&one.name));
        let hook = plan.and_then(|plan| plan.extras.pre_stop?.command());
        hook.is_some_and(|hook| hook == command)
    }

    fn ends(&mut self, id: &ContainerId, at: Duration) {
        if let Some(one) = self.containers.get(id) {
            self.ending.entry(one.uid.clone()).or_insert(at);
        }
    }

    fn starts(&mut self, id: &ContainerId) {
        if let Some(one) = self.containers.get(id) {
            self.ending.remove(&one.uid);
        }
    }

    /// Whether an instance was observed running before the termination of the pod began.
    fn was_seen(&self, one: &Instance) -> bool {
        let Some(seen) = self.seen_running.get(&one.id) else { return false };
        let Some(ending) = self.ending.get(&one.uid) else { return true };
        // A pause or a request comes before that.
        let hooks = self.pods.get(&one.uid).into_iter().flat_map(|pod| pod.all());
        let mut hooks = hooks.filter_map(|container| container.extras.pre_stop);
        let is_hooked = hooks.any(|hook| hook.command().is_none());
        let grace = self.pods.get(&one.uid).filter(|_| is_hooked).map_or(0, |pod| pod.grace);
        *seen + Duration::from_secs(grace) < *ending
    }

    fn stop_requested_for(&self, id: &SandboxId) -> Result<(), String> {
        let mut inside = self.containers.values().filter(|one| one.sandbox == *id);
        let forgotten = inside.find(|one| {
            one.may_live() && self.was_seen(one) && !self.stop_requested.contains(&one.id)
        });
        match forgotten {
            Some(one) => Err(format!("{id} is stopped while {} runs in it", one.id)),
            None => Ok(()),
        }
    }
}

impl Invariant for SandboxesStopLast {
    fn sentence(&self) -> &'static str {
        "a sandbox is stopped after all its running containers were stopped"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::AgentStarted(_) => {
                self.seen_running.clear();
                self.faulty_reads = 0;
                self.stop_requested.clear();
                self.ending.clear();
            }
            Event::Wanted(uid, pod) => {
                self.pods.insert(uid.clone(), Arc::clone(pod));
            }
            Event::Container(one, _) => {
                self.containers.insert(one.id.clone(), Arc::clone(one));
            }
            Event::ReadFaultBegan => {
                self.faulty_reads += 1;
                // All containers of a pod are read together.
                self.seen_running.retain(|_, since| *since != record.at);
            }
            Event::ReadFaultEnded => self.faulty_reads = self.faulty_reads.saturating_sub(1),
            Event::ContainerObserved(id, runs) => self.observed(id, *runs, record.at),
            Event::StartRequested(id) => self.starts(id),
            Event::ExecRequested(id, command) if self.is_before_the_end(id, command) => {
                self.ends(id, record.at);
            }
            Event::StopRequested(id, _) => {
                self.ends(id, record.at);
                self.stop_requested.insert(id.clone());
            }
            Event::SandboxStopRequested(id) => return self.stop_requested_for(id),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use model::observed::ContainerState::{Created, Exited, Running, Unknown};

    use super::*;
    use crate::invariants::tests::{broken, container, pod, seconds};
    use crate::plan::{Hook, Policy};

    #[test]
    fn finds_sandbox_stopped_with_running_containers() {
        let sentence = Some("a sandbox is stopped after all its running containers were stopped");
        let observed = |runs| Event::ContainerObserved("x0".into(), runs);
        let stop_requested = || Event::StopRequested("x0".into(), seconds(2));
        let again = || Event::AgentStarted(2);
        let rows = [
            (vec![observed(true)], sentence),
            (vec![observed(false), observed(true)], sentence),
            (vec![observed(true), container("x", 0, Unknown, Running)], sentence),
            (vec![observed(true), stop_requested()], None),
            // An agent that observed it running stops it, whatever an earlier agent did.
            (vec![observed(true), stop_requested(), again(), observed(true)], sentence),
            (vec![observed(true), again()], None),
            // It started after the last read.
            (vec![], None),
            (vec![observed(false)], None),
            (vec![observed(true), container("x", 0, Exited, Running)], None),
        ];
        for (events, expected) in rows {
            let first = [container("x", 0, Running, Created)].into_iter();
            let all = first.chain(events.clone()).chain([Event::SandboxStopRequested("s".into())]);
            assert_eq!(broken(all), expected, "{events:?}");
        }
        let elsewhere = [
            container("x", 0, Running, Created),
            observed(true),
            Event::SandboxStopRequested("other".into()),
        ];
        assert_eq!(broken(elsewhere), None);
    }

    #[test]
    fn container_first_observed_running_while_its_pod_ends_is_excused() {
        let observed = || Event::ContainerObserved("x0".into(), true);
        let other_ends = || Event::StopRequested("a0".into(), seconds(30));
        let other_starts = || Event::StartRequested("a0".into());
        let hook = Hook::Exec(seconds(1), 0);
        let runs = |hook: Hook| Event::ExecRequested("a0".into(), hook.command().unwrap());
        let rows = [
            (None, vec![observed(), other_ends()], true),
            (None, vec![other_ends(), observed()], false),
            (None, vec![other_ends(), other_starts(), observed()], true),
            (Some(hook), vec![runs(hook), observed(), other_ends()], false),
            (Some(hook), vec![runs(Hook::Exec(seconds(2), 0)), observed(), other_ends()], true),
            // It may have been stopped before.
            (Some(Hook::Http), vec![observed(), other_ends()], false),
            // Such a read is not used.
            (None, vec![Event::ReadFaultBegan, observed()], false),
            (None, vec![Event::ReadFaultBegan, Event::ReadFaultEnded, observed()], true),
            (None, vec![observed(), Event::ReadFaultBegan], true),
        ];
        for (hook, events, expected) in rows {
            let mut pod = (*pod(Policy::Always)).clone();
            pod.containers[0].extras.pre_stop = hook;
            let first = [
                Event::Wanted("u".into(), Arc::new(pod)),
                container("x", 0, Running, Created),
                container("a", 0, Running, Created),
            ];
            let mut invariant = SandboxesStopLast::default();
            let last = Event::SandboxStopRequested("s".into());
            let all = first.into_iter().chain(events.clone()).chain([last]);
            let mut records = (0..).zip(all).map(|(at, event)| Record { at: seconds(at), event });
            assert_eq!(records.any(|one| invariant.read(&one).is_err()), expected, "{events:?}");
        }
        let record = |event| Record { at: seconds(1), event };
        let mut invariant = SandboxesStopLast::default();
        let mut read = |event| invariant.read(&record(event));
        read(container("x", 0, Running, Created)).unwrap();
        read(observed()).unwrap();
        read(Event::ReadFaultBegan).unwrap();
        read(Event::SandboxStopRequested("s".into())).unwrap();
    }
}
