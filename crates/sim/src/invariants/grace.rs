//! The maximum of graces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::ids::{ContainerId, PodUid};
use model::observed::ContainerState;

use super::Invariant;
use crate::history::{Event, Instance, Record};
use crate::plan::{ContainerPlan, Hook, PodPlan};

/// The minimum grace of stop requests.
const LEAST: Duration = Duration::from_secs(2);

/// How much of a second each a hook and the wait for the turn may leave uncounted, together.
const UNCOUNTED: Duration = Duration::from_secs(2);

/// The maximum delay between the end of the other containers and the stop of a sidecar.
const NEXT: Duration = Duration::from_secs(1);

/// A sidecar gets what the others leave of the grace, and a container with a hook what the hook leaves, which
/// may be more at the next attempt: then the full grace counts again. A restart of the whole pod has no grace,
/// regardless of its containers get at their end.
#[derive(Debug, Default)]
pub(super) struct GraceShrinks {
    pods: BTreeMap<PodUid, Arc<PodPlan>>,
    unwanted: BTreeSet<PodUid>,
    containers: BTreeMap<ContainerId, Arc<Instance>>,
    stop_requested: BTreeMap<ContainerId, Duration>,
    /// When the last container before the sidecars was stopped, of orphaned pods, in an attempt without a
    /// failure so far.
    before_sidecars: BTreeMap<PodUid, Duration>,
}

impl GraceShrinks {
    fn stop_requested_for(
        &mut self,
        id: &ContainerId,
        grace: Duration,
        at: Duration,
    ) -> Result<(), String> {
        let one = self.containers.get(id);
        let pod = one.and_then(|one| self.pods.get(&one.uid));
        let plan = one.and_then(|one| pod?.container(&one.name));
        if let (Some(one), Some(pod), Some(plan)) = (one, pod, plan) {
            let most = most(pod, plan, one);
            if grace > most {
                return Err(format!("{id} gets {grace:?}, its pod has {most:?}"));
            }
            if plan.sidecar {
                self.has_waited(pod, one, grace, at)?;
            }
            if !plan.sidecar && self.ends_at_once(pod, &one.uid) {
                self.before_sidecars.insert(one.uid.clone(), at);
            }
        }
        let varies = plan.is_some_and(|plan| plan.sidecar || plan.extras.pre_stop.is_some());
        let starts_over = pod.is_some_and(|pod| pod.restarts_all());
        match self.stop_requested.insert(id.clone(), grace) {
            Some(before) if before < grace && !varies && !(starts_over && before <= LEAST) => {
                Err(format!("{id} gets {grace:?} after {before:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Whether a container is stopped together with its pod: it is not to be restarted, nor is its end the end
    /// of its pod, which has its full grace then.
    fn ends_at_once(&self, pod: &PodPlan, uid: &PodUid) -> bool {
        let is_plain = !pod.restarts_all() && pod.all().all(|one| one.extras.post_start.is_none());
        let is_lost = |one: &Instance| one.state == Some(ContainerState::Unknown);
        let has_lost = self.containers.values().any(|one| one.uid == *uid && is_lost(one));
        self.unwanted.contains(uid) && is_plain && !has_lost
    }

    /// Whether a sidecar that is stopped after the others gets no more than they left.
    fn has_waited(
        &self,
        pod: &PodPlan,
        sidecar: &Instance,
        grace: Duration,
        at: Duration,
    ) -> Result<(), String> {
        let before = self.before_sidecars.get(&sidecar.uid);
        let others = self.containers.values().filter(|one| {
            one.uid == sidecar.uid && pod.containers.iter().any(|plan| *plan.name == *one.name)
        });
        let ended = others.filter_map(|one| one.finished).max();
        let (Some(before), Some(ended)) = (before, ended) else { return Ok(()) };
        let took = at.saturating_sub(*before);
        let most = Duration::from_secs(pod.grace) + UNCOUNTED;
        if at <= ended + NEXT && grace > LEAST && grace + took >= most {
            let id = &sidecar.id;
            return Err(format!("sidecar {id} gets {grace:?} when the others took {took:?}"));
        }
        Ok(())
    }
}

/// The maximum grace period of a container: the time left after its hook.
fn most(pod: &PodPlan, plan: &ContainerPlan, one: &Instance) -> Duration {
    let runs = one.state == Some(ContainerState::Running);
    let hook = match plan.extras.pre_stop {
        Some(Hook::Sleep(seconds)) if runs => seconds,
        _ => 0,
    };
    Duration::from_secs(pod.grace.saturating_sub(hook)).max(LEAST)
}

impl Invariant for GraceShrinks {
    fn sentence(&self) -> &'static str {
        "the grace of a container is at most its pod's, less the time before its turn, and only shrinks"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::Wanted(uid, pod) => {
                self.pods.insert(uid.clone(), Arc::clone(pod));
                self.unwanted.remove(uid);
                self.before_sidecars.remove(uid);
                // A returned pod has its full grace again.
                let containers = &self.containers;
                self.stop_requested
                    .retain(|id, _| containers.get(id).is_none_or(|one| one.uid != *uid));
            }
            Event::Unwanted(uid) => {
                self.unwanted.insert(uid.clone());
            }
            Event::AgentStarted(_) => {
                self.before_sidecars.clear();
                // An agent does not know a stop that was revoked before the agent before it observed that.
                let (containers, unwanted) = (&self.containers, &self.unwanted);
                self.stop_requested.retain(|id, _| {
                    containers.get(id).is_none_or(|one| unwanted.contains(&one.uid))
                });
            }
            // A stop after that belongs to another attempt.
            Event::StopFailed(_) | Event::ReadFaultBegan => {
                self.before_sidecars.clear();
            }
            Event::Container(one, _) => {
                self.containers.insert(one.id.clone(), Arc::clone(one));
            }
            Event::StopRequested(id, grace) => {
                return self.stop_requested_for(id, *grace, record.at);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use model::observed::ContainerState::{Created, Exited, Running, Unknown};

    use super::*;
    use crate::invariants::tests::{breaks, container, pod, seconds, stop, wanted, with};
    use crate::plan::Policy;

    /// Whether events at these seconds break the invariant.
    fn holds(events: impl IntoIterator<Item = (u64, Event)>) -> bool {
        !breaks(GraceShrinks::default(), events)
    }

    #[test]
    fn finds_sidecar_grace_longer_than_the_remaining_grace() {
        let runs = |name| container(name, 0, Running, Created);
        let gone = || Event::Unwanted("u".into());
        let ends = |at| {
            with(container("a", 0, Exited, Running), |one| {
                one.finished = Some(seconds(at));
            })
        };
        // The others took from 100 to 112.
        let found = |between: Vec<(u64, Event)>, at: u64, grace: u64| {
            let first = [(1, wanted(Policy::Always)), (2, runs("side")), (2, runs("a"))];
            let end = [(112, ends(112)), (at, stop("side0", grace))];
            !holds(first.into_iter().chain(between).chain(end))
        };
        let plain = || vec![(90, gone()), (100, stop("a0", 30))];
        let with_one = |at, event| [plain(), vec![(at, event)]].concat();
        assert!(found(plain(), 112, 20) && !found(plain(), 112, 19), "seconds are counted whole");
        assert!(!found(plain(), 130, 2), "the minimum");
        assert!(!found(plain(), 120, 30), "another attempt");
        for again in [
            Event::StopFailed("a0".into()),
            Event::ReadFaultBegan,
            Event::AgentStarted(2),
            wanted(Policy::Always),
        ] {
            assert!(!found(with_one(105, again.clone()), 112, 30), "{again:?}");
        }
        assert!(!found(with_one(110, stop("a0", 30)), 112, 28), "it was requested again");
        let still_wanted = vec![(100, stop("a0", 30))];
        assert!(!found(still_wanted, 112, 30), "it may have been one container that had to end");
        let lost = container("a", 1, Unknown, Running);
        assert!(!found([vec![(50, lost)], plain()].concat(), 112, 30));
        let mut hooked = (*pod(Policy::Always)).clone();
        hooked.containers[0].extras.post_start = Some(Hook::Sleep(1));
        let hooked = Event::Wanted("u".into(), Arc::new(hooked));
        assert!(!found([vec![(50, hooked)], plain()].concat(), 112, 30));
    }

    #[test]
    fn finds_growing_grace_unless_a_new_agent_has_no_record_of_the_stop() {
        let runs = || container("a", 0, Running, Created);
        let (gone, restart) = (|| Event::Unwanted("u".into()), || Event::AgentStarted(2));
        let grows = |between: Vec<Event>| {
            let first = [wanted(Policy::Always), runs()].into_iter().chain(between);
            !holds((1..).zip(first.chain([stop("a0", 30)])))
        };
        assert!(!grows(vec![stop("a0", 30)]) && grows(vec![stop("a0", 2)]));
        assert!(!grows(vec![stop("a0", 2), restart()]), "the pod is wanted again");
        assert!(grows(vec![gone(), stop("a0", 2), restart()]), "it is stopped all the same");
    }

    #[test]
    fn finds_grace_that_includes_the_time_of_the_pre_stop_hook() {
        let mut hooked = (*pod(Policy::Always)).clone();
        hooked.containers[0].extras.pre_stop = Some(Hook::Sleep(12));
        let hooked = || Event::Wanted("u".into(), Arc::new(hooked.clone()));
        let found = |state, grace| {
            let first = [(1, hooked()), (2, container("a", 0, state, Created))];
            !holds(first.into_iter().chain([(100, stop("a0", grace))]))
        };
        assert!(found(Running, 19) && !found(Running, 18));
        assert!(!found(Exited, 30), "no hook runs in it");
    }
}
