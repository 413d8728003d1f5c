//! Containers that ended for good.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::ids::{ContainerId, PodUid, SandboxId};
use model::observed::ContainerState;

use super::Invariant;
use super::caps::CAPS;
use crate::history::{Event, Instance, Record, Removed};
use crate::plan::PodPlan;

/// A container that ended by itself, and that its pod's policy does not restart, stays ended. This does not
/// hold after a stop request of the agent, nor for a container in a dead sandbox, which is replaced with it;
/// nor when a cap removed the record of the end, nor for a container that ran after all and was removed late.
#[derive(Debug, Default)]
pub(super) struct FinalEnds {
    pods: BTreeMap<PodUid, Arc<PodPlan>>,
    stop_requested: BTreeSet<ContainerId>,
    stop_requested_sandboxes: BTreeSet<SandboxId>,
    containers: BTreeMap<ContainerId, Arc<Instance>>,
    /// Containers whose removal was requested before they had run.
    doomed: BTreeSet<ContainerId>,
    ended: BTreeMap<(PodUid, Arc<str>), Arc<Instance>>,
}

impl FinalEnds {
    fn was_stopped(&self, one: &Instance) -> bool {
        self.stop_requested.contains(&one.id)
            || self.stop_requested_sandboxes.contains(&one.sandbox)
    }
}

impl Invariant for FinalEnds {
    fn sentence(&self) -> &'static str {
        "a container that ended for good never starts again"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::Wanted(uid, pod) => {
                self.pods.insert(uid.clone(), Arc::clone(pod));
            }
            Event::StopRequested(id, _) => {
                self.stop_requested.insert(id.clone());
            }
            Event::SandboxStopRequested(id) => {
                self.stop_requested_sandboxes.insert(id.clone());
            }
            Event::RemovalRequested(Removed::Container(id), rule) if CAPS.contains(rule) => {
                self.ended.retain(|_, ended| ended.id != *id);
            }
            Event::RemovalRequested(Removed::Container(id), _) => {
                let has_run = self.containers.get(id).is_some_and(|one| one.started.is_some());
                if !has_run {
                    self.doomed.insert(id.clone());
                }
            }
            Event::Container(one, _) if one.state.is_none() && self.doomed.contains(&one.id) => {
                self.ended.retain(|_, ended| ended.id != one.id);
            }
            Event::Container(one, was) => {
                self.containers.insert(one.id.clone(), Arc::clone(one));
                let key = (one.uid.clone(), Arc::clone(&one.name));
                let Some(pod) = self.pods.get(&one.uid) else { return Ok(()) };
                let mut regular = pod.containers.iter();
                let Some(plan) = regular.find(|plan| *plan.name == *one.name) else {
                    return Ok(());
                };
                let starts = matches!(was, None | Some(ContainerState::Created))
                    && one.state != Some(ContainerState::Created)
                    && one.state.is_some();
                if starts && let Some(before) = self.ended.get(&key) {
                    // The policy of a container applies within its sandbox; and the whole pod may restart.
                    let is_ruled = plan.extras.rule.is_some() && before.sandbox != one.sandbox;
                    // A decision from before its end may still be executed.
                    if !self.was_stopped(before) && !is_ruled && !pod.restarts_all() {
                        return Err(format!(
                            "{} starts after {} ended with code {} under policy {:?}",
                            one.id, before.id, before.exit_code, pod.policy
                        ));
                    }
                }
                if one.state == Some(ContainerState::Exited) {
                    let for_good = one.started.is_some()
                        && *was != Some(ContainerState::Unknown)
                        && !plan.restarts(pod.policy, one.exit_code)
                        && !self.was_stopped(one);
                    if for_good {
                        self.ended.insert(key, Arc::clone(one));
                    } else {
                        self.ended.remove(&key);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}
