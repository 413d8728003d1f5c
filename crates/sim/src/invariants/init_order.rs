//! The order of init containers, sidecars and the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::ids::{ContainerId, PodUid, SandboxId};
use model::observed::ContainerState;

use super::Invariant;
use crate::history::{Event, Instance, Record};
use crate::plan::PodPlan;

/// In a sandbox, init containers run one after the other to their end, sidecars among them start in
/// their turn, and the others start after all of them. At the end sidecars outlive the others, unless the
/// grace is over.
#[derive(Debug, Default)]
pub(super) struct InitOrder {
    pods: BTreeMap<PodUid, Arc<PodPlan>>,
    unwanted: BTreeSet<PodUid>,
    containers: BTreeMap<ContainerId, Arc<Instance>>,
    /// When the first container of a pod that ends was asked to.
    ending: BTreeMap<PodUid, Duration>,
}

impl InitOrder {
    fn has_run(&self, sandbox: &SandboxId, name: &str, sidecar: bool) -> bool {
        let mut instances =
            self.containers.values().filter(|one| one.sandbox == *sandbox && *one.name == *name);
        instances.any(|one| {
            let ended = one.finished.is_some() && one.exit_code == 0;
            if sidecar { one.started.is_some() } else { ended }
        })
    }

    fn starts(&self, one: &Instance) -> Result<(), String> {
        let Some(pod) = self.pods.get(&one.uid) else { return Ok(()) };
        let before = pod.init.iter().take_while(|init| *init.name != *one.name);
        for init in before {
            if !self.has_run(&one.sandbox, init.name, init.sidecar) {
                return Err(format!("{} ({}) starts before {}", one.id, one.name, init.name));
            }
        }
        Ok(())
    }

    fn asked_to_stop(&mut self, id: &ContainerId, at: Duration) -> Result<(), String> {
        let Some(one) = self.containers.get(id) else { return Ok(()) };
        // It may have begun to end for another reason, before nobody wanted it.
        let since = *self.ending.entry(one.uid.clone()).or_insert(at);
        let Some(pod) = self.pods.get(&one.uid).filter(|_| self.unwanted.contains(&one.uid)) else {
            return Ok(());
        };
        let grace = Duration::from_secs(pod.grace);
        let is_sidecar = pod.init.iter().any(|init| init.sidecar && *init.name == *one.name);
        // One that the runtime lost track of is stopped to be replaced, by an agent that has not heard yet that
        // nobody wants the pod.
        let is_lost = one.state == Some(ContainerState::Unknown);
        if !is_sidecar || is_lost || at + Duration::from_secs(1) >= since + grace {
            return Ok(());
        }
        let regular = |other: &&Arc<Instance>| {
            other.uid == one.uid
                && other.may_live()
                && pod.containers.iter().any(|container| *container.name == *other.name)
        };
        match self.containers.values().find(regular) {
            Some(other) => Err(format!("sidecar {id} is stopped while {} lives", other.id)),
            None => Ok(()),
        }
    }
}

impl Invariant for InitOrder {
    fn sentence(&self) -> &'static str {
        "init containers and sidecars come before the others and sidecars end after them"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::Wanted(uid, pod) => {
                self.pods.insert(uid.clone(), Arc::clone(pod));
                self.unwanted.remove(uid);
            }
            Event::Unwanted(uid) => {
                self.unwanted.insert(uid.clone());
            }
            // A new agent does not know what a pod was that it finds unwanted.
            Event::AgentStarted(_) => {
                self.ending.clear();
                self.unwanted.clear();
            }
            Event::StopAsked(id, _) => self.asked_to_stop(id, record.at)?,
            Event::Container(one, was) => {
                let is_new = matches!(was, None | Some(ContainerState::Created));
                if is_new && one.started.is_some() {
                    // What starts after an end has that end behind it.
                    self.ending.remove(&one.uid);
                    self.starts(one)?;
                }
                self.containers.insert(one.id.clone(), Arc::clone(one));
            }
            _ => {}
        }
        Ok(())
    }
}
