//! Pods that have terminated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::ids::{ContainerId, PodUid, SandboxId};
use model::observed::{ContainerState, SandboxState};

use super::Invariant;
use super::caps::CAPS;
use super::returned_pods::ORPHAN_RULES;
use crate::history::{Event, Instance, Record, Removed, ReservedName};
use crate::plan::PodPlan;

/// How long after a pod was last wanted it may still be removed for an earlier time at which it was not.
const OBSERVED_AFTER: Duration = Duration::from_mins(1);

/// The maximum delay after the end of a pod until the agent reads its status.
const SEEN_AFTER: Duration = Duration::from_secs(30);

/// A pod has terminated once none of its containers will run again and the agent got the response that its
/// sandbox has stopped. Nothing is created for it any more, by any agent, and the agent that terminated it does
/// not stop it again. The same holds for a pod that was removed as an orphan. A pod that is wanted again starts
/// over, and so does, with the next agent, a pod whose end is not recorded because of a cap.
#[derive(Debug, Default)]
pub(super) struct TerminatedStays {
    /// The wanted pods.
    pods: BTreeMap<PodUid, Arc<PodPlan>>,
    unwanted: BTreeMap<PodUid, Duration>,
    /// The pods of containers and sandboxes, by their ids.
    owners: BTreeMap<String, PodUid>,
    ready: BTreeSet<SandboxId>,
    numbers: BTreeMap<SandboxId, u32>,
    /// The sandboxes with the highest number: a late one may have a lower number, and is collected.
    newest: BTreeMap<PodUid, SandboxId>,
    stop_requested: BTreeSet<ContainerId>,
    /// Instances that ended by themselves and for good, by name.
    ended: BTreeMap<PodUid, BTreeMap<Arc<str>, ContainerId>>,
    terminated: BTreeSet<PodUid>,
    /// Pods from which a cap removed an ended container.
    capped: BTreeSet<PodUid>,
    /// Pods that this agent terminated, with their sandboxes.
    by_this_agent: BTreeMap<PodUid, (SandboxId, Duration)>,
    /// Pods whose termination failed or was not observed by this agent, so that it is retried.
    tried: BTreeSet<PodUid>,
    /// Reads with a fault in progress.
    faulty_reads: usize,
}

impl TerminatedStays {
    fn has_finished(&self, uid: &PodUid) -> bool {
        let (Some(pod), Some(ended)) = (self.pods.get(uid), self.ended.get(uid)) else {
            return false;
        };
        let has_ended = |name: &str| ended.contains_key(name);
        let mut inits = pod.init.iter().filter(|init| !init.sidecar);
        pod.containers.iter().all(|container| has_ended(container.name))
            || inits.any(|init| has_ended(init.name))
    }

    fn changed(&mut self, one: &Instance, was: Option<ContainerState>) {
        self.owners.insert(one.id.to_string(), one.uid.clone());
        let Some(pod) = self.pods.get(&one.uid) else { return };
        let ended = self.ended.entry(one.uid.clone()).or_default();
        match one.state {
            None => ended.retain(|_, id| *id != one.id),
            Some(ContainerState::Exited) => {
                let mut regular = pod.containers.iter();
                let regular = regular.find(|container| *container.name == *one.name);
                let by_itself = one.started.is_some()
                    && was != Some(ContainerState::Unknown)
                    && !self.stop_requested.contains(&one.id);
                // A completed init container lets its pod continue.
                let is_last = match regular.or_else(|| pod.container(&one.name)) {
                    Some(container) => {
                        let has_failed = regular.is_some() || one.exit_code != 0;
                        has_failed && !container.restarts(pod.policy, one.exit_code)
                    }
                    None => one.exit_code != 0 && !pod.policy.restarts(one.exit_code),
                };
                if by_itself && is_last {
                    ended.insert(Arc::clone(&one.name), one.id.clone());
                }
            }
            Some(_) => {
                ended.remove(&one.name);
            }
        }
    }

    /// The knowledge about a pod does not count when it is wanted again.
    fn forget(&mut self, uid: &PodUid) {
        self.pods.remove(uid);
        self.ended.remove(uid);
        self.terminated.remove(uid);
        self.by_this_agent.remove(uid);
        self.capped.remove(uid);
    }

    /// The end is known only to the agent that terminated the pod.
    fn capped(&mut self, id: &ContainerId) {
        let Some(uid) = self.owners.get(id.as_str()) else { return };
        if let Some(ended) = self.ended.get_mut(uid) {
            ended.retain(|_, ended| ended != id);
        }
        if self.by_this_agent.contains_key(uid) {
            self.capped.insert(uid.clone());
        } else {
            self.terminated.remove(uid);
        }
    }

    fn stop_requested_for(&mut self, id: &ContainerId) {
        self.stop_requested.insert(id.clone());
        // A decision from before its end may still be executed.
        if let Some(ended) = self.owners.get(id.as_str()).and_then(|uid| self.ended.get_mut(uid)) {
            ended.retain(|_, ended| ended != id);
        }
    }

    fn sandbox_changed(&mut self, id: &SandboxId, uid: &PodUid, state: SandboxState) {
        if state == SandboxState::Ready {
            self.ready.insert(id.clone());
        } else {
            self.ready.remove(id);
        }
        let is_new = self.owners.insert(id.to_string(), uid.clone()).is_none();
        if is_new {
            let number = |id: &SandboxId| self.numbers.get(id).copied().unwrap_or(0);
            let is_newest = |newest: &SandboxId| number(newest) <= number(id);
            if self.newest.get(uid).is_none_or(is_newest) {
                self.newest.insert(uid.clone(), id.clone());
            }
            self.by_this_agent.remove(uid);
        }
    }

    fn sandbox_stopped(&mut self, id: &SandboxId, at: Duration) {
        let Some(uid) = self.owners.get(id.as_str()).cloned() else { return };
        if self.newest.get(&uid) == Some(id) && self.has_finished(&uid) {
            self.terminated.insert(uid.clone());
            // A late sandbox is stopped too, and all others once more with it.
            let mut others = self.ready.iter().filter(|other| *other != id);
            let has_other = others.any(|other| self.owners.get(other.as_str()) == Some(&uid));
            if self.faulty_reads > 0 || has_other {
                self.tried.insert(uid.clone());
            }
            self.by_this_agent.insert(uid, (id.clone(), at));
        }
    }

    fn sandbox_stop_requested(&self, id: &SandboxId) -> Result<(), String> {
        let Some(uid) = self.owners.get(id.as_str()) else { return Ok(()) };
        let is_same = self.by_this_agent.get(uid).is_some_and(|(ended, _)| ended == id);
        if is_same && !self.tried.contains(uid) {
            return Err(format!("{id} of {uid}, which has terminated, is stopped again"));
        }
        Ok(())
    }

    /// A pod that was terminated just now may not be observed as ended.
    fn read_fault_began(&mut self, at: Duration) {
        self.faulty_reads += 1;
        let just_now =
            self.by_this_agent.iter().filter(|(_, (_, ended))| at <= *ended + SEEN_AFTER);
        self.tried.extend(just_now.map(|(uid, _)| uid.clone()));
    }

    fn removed(&mut self, id: &str, at: Duration) {
        let Some(uid) = self.owners.get(id) else { return };
        if self.unwanted.get(uid).is_some_and(|since| at > *since + OBSERVED_AFTER) {
            self.terminated.insert(uid.clone());
        }
    }

    fn creation_requested(&self, reserved: &ReservedName) -> Result<(), String> {
        if !self.terminated.contains(&reserved.uid) {
            return Ok(());
        }
        let what = reserved.name.as_deref().unwrap_or("a sandbox");
        Err(format!("{what} is created for {}, which has terminated", reserved.uid))
    }
}

impl Invariant for TerminatedStays {
    fn sentence(&self) -> &'static str {
        "a pod that has terminated is not synced again"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::AgentStarted(_) => {
                self.by_this_agent.clear();
                for uid in std::mem::take(&mut self.capped) {
                    self.terminated.remove(&uid);
                }
                self.tried.clear();
                self.faulty_reads = 0;
            }
            Event::Wanted(uid, pod) => {
                if self.unwanted.remove(uid).is_some() {
                    self.forget(uid);
                }
                self.pods.insert(uid.clone(), Arc::clone(pod));
            }
            Event::Unwanted(uid) => {
                self.forget(uid);
                self.unwanted.insert(uid.clone(), record.at);
            }
            Event::Container(one, was) => self.changed(one, *was),
            Event::Numbered(id, number) => {
                self.numbers.insert(id.clone(), *number);
            }
            Event::Sandbox(id, uid, state) => self.sandbox_changed(id, uid, *state),
            Event::StopRequested(id, _) => self.stop_requested_for(id),
            Event::SandboxStopRequested(id) => self.sandbox_stop_requested(id)?,
            Event::SandboxStopped(id) => self.sandbox_stopped(id, record.at),
            Event::ReadFaultBegan => self.read_fault_began(record.at),
            Event::ReadFaultEnded => self.faulty_reads = self.faulty_reads.saturating_sub(1),
            Event::StopFailed(id) => {
                self.tried.extend(self.owners.get(id).cloned());
            }
            Event::RemovalRequested(removed, rule) if ORPHAN_RULES.contains(rule) => {
                match removed {
                    Removed::Container(id) => self.removed(id.as_str(), record.at),
                    Removed::Sandbox(id) => self.removed(id.as_str(), record.at),
                }
            }
            Event::RemovalRequested(Removed::Container(id), rule) if CAPS.contains(rule) => {
                self.capped(id);
            }
            Event::CreationRequested(reserved) => self.creation_requested(reserved)?,
            _ => {}
        }
        Ok(())
    }
}
