//! The order of init containers, sidecars and regular containers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::ids::{ContainerId, PodUid, SandboxId};
use model::observed::ContainerState;
use podspec::Origin;

use super::Invariant;
use super::caps::CAPS;
use crate::history::{Event, Instance, Record, Removed};
use crate::plan::PodPlan;

/// The minimum grace of stop requests, also when none is left.
const LEAST: Duration = Duration::from_secs(2);

/// The rule of removals for a restart of the whole pod.
const START_OVER: &str = "restart-all-containers";

/// In a sandbox, init containers run to completion one after another, sidecars among them start in their turn,
/// and the regular containers start after all of them. At the end sidecars outlive the regular containers, and
/// each the sidecar after it, unless the grace is over. A restart of the whole pod begins with the init
/// containers.
#[derive(Debug, Default)]
pub(super) struct InitOrder {
    pods: BTreeMap<PodUid, Arc<PodPlan>>,
    unwanted: BTreeSet<PodUid>,
    /// Pods from before this agent that it has not read while they were wanted: it does not know their
    /// containers, and uses the minimum grace.
    orphans: BTreeSet<PodUid>,
    containers: BTreeMap<ContainerId, Arc<Instance>>,
    /// When the removal of the last container of a sandbox was requested for a restart of the whole pod.
    reset: BTreeMap<SandboxId, Duration>,
    /// Containers whose last instance in the sandbox was removed by a cap. It may be the one that restarts the
    /// whole pod: a worker that has not seen it yet does not know.
    capped: BTreeSet<(SandboxId, Arc<str>)>,
    /// When the first container of a terminating pod was stopped.
    ending: BTreeMap<PodUid, Duration>,
}

impl InitOrder {
    /// Whether an init container is done, since the last restart of the whole pod.
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

    fn removal_requested(&mut self, id: &ContainerId, rule: &'static str, at: Duration) {
        let Some(one) = self.containers.get(id) else { return };
        if rule == START_OVER {
            self.reset.insert(one.sandbox.clone(), at);
        } else if CAPS.contains(&rule) && self.is_last(one) {
            self.reset.remove(&one.sandbox);
            self.capped.insert((one.sandbox.clone(), Arc::clone(&one.name)));
        }
    }

    fn is_last(&self, one: &Instance) -> bool {
        !self.containers.values().any(|other| other.sandbox == one.sandbox && other.succeeds(one))
    }

    fn origin_read(&mut self, origin: &Origin) {
        let (pods, unwanted) = (&self.pods, &self.unwanted);
        self.orphans.retain(|uid| {
            unwanted.contains(uid) || pods.get(uid).is_none_or(|pod| pod.origin() != *origin)
        });
    }

    fn stop_requested_for(
        &mut self,
        id: &ContainerId,
        grace: Duration,
        at: Duration,
    ) -> Result<(), String> {
        let Some(one) = self.containers.get(id) else { return Ok(()) };
        // Its stop may have another reason, from before it was orphaned.
        let since = *self.ending.entry(one.uid.clone()).or_insert(at);
        let Some(pod) = self.pods.get(&one.uid) else { return Ok(()) };
        let mut sidecars = pod.init.iter().filter(|init| init.sidecar);
        let is_sidecar = sidecars.any(|sidecar| *sidecar.name == *one.name);
        let next = sidecars.next();
        // A container whose state the runtime lost is stopped to be replaced, perhaps after it was removed.
        let is_lost = matches!(one.state, None | Some(ContainerState::Unknown));
        // With some of its grace left, the wait was not in vain.
        let has_grace = grace > LEAST;
        let in_time = at + Duration::from_secs(1) < since + Duration::from_secs(pod.grace);
        // Hooks come before the first stop, and a restart of the whole pod has no order.
        let is_plain = !pod.restarts_all() && pod.all().all(|one| one.extras.pre_stop.is_none());
        let goes_as_known = self.unwanted.contains(&one.uid) && !self.orphans.contains(&one.uid);
        let is_early = has_grace || (in_time && is_plain && goes_as_known);
        // It may have run only briefly.
        let failed = pod.container(&one.name).is_some_and(|one| one.extras.post_start.is_some());
        if !is_sidecar || is_lost || failed || !is_early {
            return Ok(());
        }
        let mut first = pod.containers.iter().chain(next);
        // A late start of an earlier call in a terminating pod could not be waited for.
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
                let capped = &self.capped;
                self.reset.retain(|sandbox, _| capped.iter().all(|(of, _)| of != sandbox));
                self.orphans = self.pods.keys().cloned().collect();
            }
            Event::OriginRead(origin) => self.origin_read(origin),
            // An instance that starts after an end is later than that end.
            Event::StartRequested(id) => {
                if let Some(one) = self.containers.get(id) {
                    self.ending.remove(&one.uid);
                }
            }
            Event::StopRequested(id, grace) => self.stop_requested_for(id, *grace, record.at)?,
            Event::RemovalRequested(Removed::Container(id), rule) => {
                self.removal_requested(id, rule, record.at);
            }
            Event::Container(one, was) => {
                let is_new = matches!(was, None | Some(ContainerState::Created));
                if is_new && one.started.is_some() {
                    self.capped.remove(&(one.sandbox.clone(), Arc::clone(&one.name)));
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
    use model::observed::ContainerState::{Created, Exited, Running};

    use super::*;
    use crate::invariants::tests::{
        IN_ORDER, a_while, broken, broken_on, container, initialized, pod, seconds, takes_the_last,
        wanted, with,
    };
    use crate::plan::Policy;

    #[test]
    fn finds_init_order_broken_for_a_known_pod() {
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
            let stop = |id: &str, grace| Event::StopRequested(id.into(), seconds(grace));
            let running = initialized().into_iter().chain([container("a", 0, Running, Created)]);
            let first = [wanted(Policy::Always)].into_iter().chain(running).chain(a_while());
            let first = first.chain([Event::AgentStarted(2)]).chain(events.clone());
            let ends = [stop("a0", 30), stop("side0", 2)];
            assert_eq!(broken(first.chain(ends)), expected, "{events:?}");
        }
    }

    #[test]
    fn unobserved_exit_exempts_agent_from_restarting_the_pod() {
        let removed = |id: &str, rule| Event::RemovalRequested(Removed::Container(id.into()), rule);
        let over = || removed("i0", START_OVER);
        let capped = |id| removed(id, "node-cap-oldest");
        let again = || Event::AgentStarted(2);
        let ran = |number| {
            [container("a", number, Running, Created), container("a", number, Exited, Running)]
        };
        let gone = |number| with(container("a", number, Exited, Exited), |one| one.state = None);
        let ran_again =
            || ran(1).into_iter().map(|one| with(one, |one| one.started = Some(seconds(50))));
        let rows = [
            (vec![over()], Some(IN_ORDER)),
            (vec![over(), again()], Some(IN_ORDER)),
            (vec![over(), again(), capped("a0"), gone(0)], None),
            // Its worker was about to do so.
            (vec![capped("a0"), gone(0), over()], Some(IN_ORDER)),
            (vec![capped("a0"), gone(0), over(), again()], None),
            // It has run since.
            (
                [capped("a0"), gone(0)]
                    .into_iter()
                    .chain(ran_again())
                    .chain([over(), again()])
                    .collect(),
                Some(IN_ORDER),
            ),
            // The terminated container that restarts the whole pod still exists.
            (ran_again().chain([capped("a0"), gone(0), over(), again()]).collect(), Some(IN_ORDER)),
        ];
        for (row, (events, expected)) in rows.into_iter().enumerate() {
            let first = [wanted(Policy::Always)].into_iter().chain(initialized()).chain(ran(0));
            let starts =
                with(container("a", 2, Running, Created), |one| one.started = Some(seconds(99)));
            assert_eq!(
                broken_on(&takes_the_last(), first.chain(a_while()).chain(events).chain([starts])),
                expected,
                "row {row}"
            );
        }
    }
}
