//! The order of init containers, sidecars and the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::ids::{ContainerId, PodUid, SandboxId};
use model::observed::ContainerState;
use podspec::Origin;

use super::Invariant;
use crate::history::{Event, Instance, Record, Removed};
use crate::plan::PodPlan;

/// The least grace that the runtime is told, also when nothing is left of it.
const LEAST: Duration = Duration::from_secs(2);

/// The rule by which containers go so that all of their pod start over.
const START_OVER: &str = "restart-all-containers";

/// In a sandbox, init containers run one after the other to their end, sidecars among them start in
/// their turn, and the others start after all of them. At the end sidecars outlive the others, and each
/// the one after it, unless the grace is over. Where all start over the init containers do so first.
#[derive(Debug, Default)]
pub(super) struct InitOrder {
    pods: BTreeMap<PodUid, Arc<PodPlan>>,
    unwanted: BTreeSet<PodUid>,
    /// Pods from before this agent of which it has not read while they were wanted: it does not know what they
    /// were, and leaves them the least grace.
    strangers: BTreeSet<PodUid>,
    containers: BTreeMap<ContainerId, Arc<Instance>>,
    /// When the last container of a sandbox was to go so that all of them start over.
    reset: BTreeMap<SandboxId, Duration>,
    /// When the first container of a pod that ends was asked to.
    ending: BTreeMap<PodUid, Duration>,
}

impl InitOrder {
    /// Whether an init container has done its part, since all started over if they did.
    fn has_run(&self, sandbox: &SandboxId, name: &str, sidecar: bool) -> bool {
        let reset = self.reset.get(sandbox);
        let mut instances =
            self.containers.values().filter(|one| one.sandbox == *sandbox && *one.name == *name);
        instances.any(|one| {
            let counts = reset.is_none_or(|reset| one.started >= Some(*reset));
            let ended = one.finished.is_some() && one.exit_code == 0;
            counts && if sidecar { one.started.is_some() } else { ended }
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

    fn origin_read(&mut self, origin: &Origin) {
        let (pods, unwanted) = (&self.pods, &self.unwanted);
        self.strangers.retain(|uid| {
            unwanted.contains(uid) || pods.get(uid).is_none_or(|pod| pod.origin() != *origin)
        });
    }

    fn asked_to_stop(
        &mut self,
        id: &ContainerId,
        grace: Duration,
        at: Duration,
    ) -> Result<(), String> {
        let Some(one) = self.containers.get(id) else { return Ok(()) };
        // It may have begun to end for another reason, before nobody wanted it.
        let since = *self.ending.entry(one.uid.clone()).or_insert(at);
        let Some(pod) = self.pods.get(&one.uid) else { return Ok(()) };
        let mut sidecars = pod.init.iter().filter(|init| init.sidecar);
        let is_sidecar = sidecars.any(|sidecar| *sidecar.name == *one.name);
        let next = sidecars.next();
        // One that the runtime lost track of is stopped to be replaced, perhaps after somebody removed it.
        let is_lost = matches!(one.state, None | Some(ContainerState::Unknown));
        // Whoever still has some of its grace has not waited in vain.
        let has_grace = grace > LEAST;
        let in_time = at + Duration::from_secs(1) < since + Duration::from_secs(pod.grace);
        // Hooks come before the first stop, and where all start over nobody waits.
        let is_plain = !pod.restarts_all() && pod.all().all(|one| one.extras.pre_stop.is_none());
        let goes_as_known = self.unwanted.contains(&one.uid) && !self.strangers.contains(&one.uid);
        let is_early = has_grace || (in_time && is_plain && goes_as_known);
        // It may have come up for a moment only.
        let failed = pod.container(&one.name).is_some_and(|one| one.extras.post_start.is_some());
        if !is_sidecar || is_lost || failed || !is_early {
            return Ok(());
        }
        let mut first = pod.containers.iter().chain(next);
        // What an earlier call starts late, when the pod is ending, nobody could have waited for.
        let in_order = |other: &&Arc<Instance>| {
            other.uid == one.uid
                && other.may_live()
                && other.started.is_none_or(|started| started <= since)
        };
        let live: Vec<&Arc<Instance>> = self.containers.values().filter(in_order).collect();
        match first.find_map(|first| live.iter().find(|live| *live.name == *first.name)) {
            Some(other) => Err(format!("sidecar {id} is stopped while {} lives", other.id)),
            None => Ok(()),
        }
    }
}

impl Invariant for InitOrder {
    fn sentence(&self) -> &'static str {
        "init containers and sidecars start before the others, and sidecars end after them and one another"
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
            Event::AgentStarted(_) => {
                self.ending.clear();
                self.strangers = self.pods.keys().cloned().collect();
            }
            Event::OriginRead(origin) => self.origin_read(origin),
            // What starts after an end has that end behind it.
            Event::StartAsked(id) => {
                if let Some(one) = self.containers.get(id) {
                    self.ending.remove(&one.uid);
                }
            }
            Event::StopAsked(id, grace) => self.asked_to_stop(id, *grace, record.at)?,
            Event::RemoveAsked(Removed::Container(id), START_OVER) => {
                if let Some(one) = self.containers.get(id) {
                    self.reset.insert(one.sandbox.clone(), record.at);
                }
            }
            Event::Container(one, was) => {
                let is_new = matches!(was, None | Some(ContainerState::Created));
                if is_new && one.started.is_some() {
                    self.starts(one)?;
                }
                self.containers.insert(one.id.clone(), Arc::clone(one));
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use model::observed::ContainerState::{Created, Running};

    use super::*;
    use crate::invariants::tests::{
        IN_ORDER, a_while, broken, container, initialized, pod, seconds, wanted,
    };
    use crate::plan::Policy;

    #[test]
    fn an_agent_keeps_the_order_of_pods_that_it_was_told_of() {
        let gone = || Event::Unwanted("u".into());
        let again = || wanted(Policy::Always);
        let read = || Event::OriginRead(pod(Policy::Always).origin());
        let read_another = || Event::OriginRead(Origin::File(PodPlan::path_of("other")));
        let rows = [
            (vec![gone()], None),
            (vec![read(), gone()], Some(IN_ORDER)),
            (vec![read_another(), gone()], None),
            (vec![gone(), read()], None),
            (vec![gone(), read(), again(), gone()], None),
            (vec![gone(), again(), read(), gone()], Some(IN_ORDER)),
            (vec![read(), gone(), Event::AgentStarted(3)], None),
            (vec![read(), Event::AgentStarted(3), gone()], None),
            (vec![read(), Event::AgentStarted(3), read(), gone()], Some(IN_ORDER)),
        ];
        for (events, expected) in rows {
            let stop = |id: &str| Event::StopAsked(id.into(), seconds(2));
            let running = initialized().into_iter().chain([container("a", 0, Running, Created)]);
            let first = [wanted(Policy::Always)].into_iter().chain(running).chain(a_while());
            let first = first.chain([Event::AgentStarted(2)]).chain(events.clone());
            assert_eq!(broken(first.chain([stop("a0"), stop("side0")])), expected, "{events:?}");
        }
    }
}
