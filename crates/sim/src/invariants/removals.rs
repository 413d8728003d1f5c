//! Removals.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::ids::{ContainerId, PodUid, SandboxId};
use model::observed::{ContainerState, SandboxState};

use super::Invariant;
use super::caps::CAPS;
use super::returned_pods::ORPHAN_RULES;
use crate::history::{Event, Instance, Record, Removed};
use crate::plan::PodPlan;

/// How long after a pod came back an earlier observed object may still be removed.
pub(super) const PATIENCE: Duration = Duration::from_mins(5);

/// The log directory, with a directory per pod.
pub(crate) const LOGS: &str = "/var/log/pods/";

/// Rules by which a pod's own worker removes objects that block it.
pub(crate) const BY_WORKERS: [&str; 6] = [
    "does-not-start",
    "init-container-of-old-sandbox",
    "name-taken",
    "never-started",
    "older-init-container",
    "restart-all-containers",
];

/// No live object is removed, and of a wanted pod neither the last instance of a container nor the last
/// sandbox, also by an agent that has not observed yet that it is wanted. Some caps may remove the last
/// instance too.
#[derive(Debug, Default)]
pub(super) struct OnlyDeadAndOld {
    /// Whether there is such a cap.
    caps_take_the_last: bool,
    containers: BTreeMap<ContainerId, Arc<Instance>>,
    sandboxes: BTreeMap<SandboxId, (PodUid, SandboxState)>,
    wanted: BTreeMap<PodUid, (Duration, Arc<PodPlan>)>,
}

impl OnlyDeadAndOld {
    pub(super) fn new(caps_take_the_last: bool) -> Self {
        Self { caps_take_the_last, ..Self::default() }
    }

    /// The time since when a pod is wanted, in any version; `None` if it is not.
    fn is_wanted(&self, uid: &PodUid, now: Duration) -> Option<&PodPlan> {
        let (since, plan) = self.wanted.get(uid)?;
        (now >= *since + PATIENCE).then_some(plan)
    }

    fn container(&self, id: &ContainerId, rule: &str, now: Duration) -> Result<(), String> {
        let known = self.containers.get(id).filter(|_| !BY_WORKERS.contains(&rule));
        let Some(one) = known else { return Ok(()) };
        if one.state == Some(ContainerState::Running) {
            return Err(format!("{id} runs and is removed by {rule}"));
        }
        let Some(plan) = self.is_wanted(&one.uid, now) else { return Ok(()) };
        let is_regular = plan.containers.iter().any(|container| *container.name == *one.name);
        let has_newer = self.containers.values().any(|other| other.succeeds(one));
        let was_alive = one.state == Some(ContainerState::Exited);
        let is_capped = self.caps_take_the_last && CAPS.contains(&rule);
        if is_regular && was_alive && !has_newer && !is_capped {
            return Err(format!("{id} is the last of a wanted pod and is removed by {rule}"));
        }
        Ok(())
    }

    fn sandbox(&self, id: &SandboxId, rule: &str, now: Duration) -> Result<(), String> {
        match self.sandboxes.get(id) {
            Some((_, SandboxState::Ready)) => {
                Err(format!("{id} is ready and is removed by {rule}"))
            }
            Some((uid, _))
                if ORPHAN_RULES.contains(&rule) && self.is_wanted(uid, now).is_some() =>
            {
                Err(format!("{id} is of a wanted pod and is removed by {rule}"))
            }
            _ => Ok(()),
        }
    }
}

impl Invariant for OnlyDeadAndOld {
    fn sentence(&self) -> &'static str {
        "no live object is removed, nor the last instance of a wanted pod's container"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::Wanted(uid, plan) => {
                let since = self.wanted.get(uid).map_or(record.at, |(since, _)| *since);
                self.wanted.insert(uid.clone(), (since, Arc::clone(plan)));
            }
            Event::Unwanted(uid) => drop(self.wanted.remove(uid)),
            Event::Container(one, _) => {
                self.containers.insert(one.id.clone(), Arc::clone(one));
            }
            Event::Sandbox(id, uid, state) => {
                self.sandboxes.insert(id.clone(), (uid.clone(), *state));
            }
            Event::RemovalRequested(Removed::Container(id), rule) => {
                return self.container(id, rule, record.at);
            }
            Event::RemovalRequested(Removed::Sandbox(id), rule) => {
                return self.sandbox(id, rule, record.at);
            }
            _ => {}
        }
        Ok(())
    }
}
