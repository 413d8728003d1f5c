//! The minimum of graces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::ids::{ContainerId, PodUid};
use podspec::Origin;

use super::Invariant;
use super::pod_restart::PodRestart;
use crate::history::{ActionTarget, Event, Instance, Record};
use crate::plan::{ContainerPlan, Hook, PodPlan};

/// The minimum grace of stop requests.
const LEAST: Duration = Duration::from_secs(2);

/// How long after the end of a grace period an action may still belong to it.
const SLACK: Duration = Duration::from_secs(1);

/// A container gets the grace of its pod, less the time of its hook and of the wait for its turn, at every
/// attempt. An agent that knows a pod only from the runtime does not know its grace, and a restart of the whole
/// pod has none.
#[derive(Debug, Default)]
pub(super) struct FullGrace {
    /// All versions of each pod: an agent may use an earlier one.
    pods: BTreeMap<PodUid, Vec<Arc<PodPlan>>>,
    unwanted: BTreeSet<PodUid>,
    /// Pods that this agent read while they were wanted.
    read: BTreeSet<PodUid>,
    /// Pods that it met as orphans, or terminated as such, and for which it has created nothing since: they
    /// stay orphans until their end.
    orphans: BTreeSet<PodUid>,
    starting_over: PodRestart,
    containers: BTreeMap<ContainerId, Arc<Instance>>,
    /// When this agent executed commands in containers.
    acted: BTreeMap<ContainerId, Vec<Duration>>,
    /// When it sent HTTP requests to pods.
    requested: Vec<Duration>,
}

impl FullGrace {
    fn stop_requested_for(
        &mut self,
        id: &ContainerId,
        grace: Duration,
        at: Duration,
    ) -> Result<(), String> {
        let Some(one) = self.containers.get(id) else { return Ok(()) };
        if !self.read.contains(&one.uid) {
            self.orphans.insert(one.uid.clone());
        }
        let is_excused = self.orphans.contains(&one.uid) || self.starting_over.contains(&one.uid);
        let versions = self.pods.get(&one.uid).filter(|_| !is_excused);
        let least = versions.into_iter().flatten().filter_map(|pod| self.least(pod, one, at)).min();
        match least.filter(|least| grace < *least) {
            Some(least) => Err(format!("{id} gets {grace:?}, and not {least:?}")),
            None => Ok(()),
        }
    }

    /// The minimum grace period of an instance, from a version of its pod.
    fn least(&self, pod: &PodPlan, one: &Instance, at: Duration) -> Option<Duration> {
        let plan = pod.container(&one.name)?;
        let grace = Duration::from_secs(pod.grace);
        let took = if plan.sidecar {
            self.sidecar_took(pod, one, grace, at)
        } else {
            self.hook_took(plan, one, grace, at)
        };
        let counted = Duration::from_secs(took.as_secs());
        Some(grace.saturating_sub(counted).max(LEAST))
    }

    /// The longest time of a grace that the hook of an instance has used.
    fn hook_took(
        &self,
        plan: &ContainerPlan,
        one: &Instance,
        grace: Duration,
        at: Duration,
    ) -> Duration {
        match plan.extras.pre_stop {
            None => Duration::ZERO,
            Some(Hook::Sleep(seconds)) => Duration::from_secs(seconds),
            Some(Hook::Exec(..)) => {
                since_it_began(self.acted.get(&one.id).into_iter().flatten(), grace, at)
            }
            Some(Hook::Http) => since_it_began(&self.requested, grace, at),
        }
    }

    /// How long the hook of a sidecar and its wait for the other containers took.
    fn sidecar_took(
        &self,
        pod: &PodPlan,
        one: &Instance,
        grace: Duration,
        at: Duration,
    ) -> Duration {
        let hooks = || pod.all().filter_map(|one| one.extras.pre_stop);
        let slept = hooks().map(|hook| if let Hook::Sleep(seconds) = hook { seconds } else { 0 });
        let slept = Duration::from_secs(slept.max().unwrap_or(0));
        let of_pod = self.containers.values().filter(|other| other.uid == one.uid);
        let acted = of_pod.filter_map(|other| self.acted.get(&other.id)).flatten();
        let requested = self.requested.iter().filter(|_| hooks().any(|hook| hook == Hook::Http));
        slept + since_it_began(acted.chain(requested), grace, at)
    }

    fn origin_read(&mut self, origin: &Origin) {
        let wanted = self.pods.iter().filter(|(uid, _)| !self.unwanted.contains(*uid));
        let read = wanted
            .filter(|(_, versions)| versions.last().is_some_and(|pod| pod.origin() == *origin));
        self.read.extend(read.map(|(uid, _)| uid.clone()));
    }

    fn wanted(&mut self, uid: &PodUid, pod: &Arc<PodPlan>) {
        self.pods.entry(uid.clone()).or_default().push(Arc::clone(pod));
        self.unwanted.remove(uid);
    }
}

/// The time since the first of these actions that may belong to the stop in progress.
fn since_it_began<'a>(
    times: impl IntoIterator<Item = &'a Duration>,
    grace: Duration,
    at: Duration,
) -> Duration {
    let began = times.into_iter().filter(|time| **time + grace + SLACK >= at).min();
    at.saturating_sub(began.copied().unwrap_or(at))
}

impl Invariant for FullGrace {
    fn sentence(&self) -> &'static str {
        "a stopped container gets all of its pod's grace that its hook and its turn leave"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        self.starting_over.take(&record.event);
        match &record.event {
            Event::Wanted(uid, pod) => self.wanted(uid, pod),
            Event::Unwanted(uid) => {
                self.unwanted.insert(uid.clone());
                if !self.read.contains(uid) {
                    self.orphans.insert(uid.clone());
                }
            }
            Event::AgentStarted(_) => {
                self.acted.clear();
                self.requested.clear();
                self.read.clear();
                self.orphans.clone_from(&self.unwanted);
            }
            Event::OriginRead(origin) => self.origin_read(origin),
            Event::CreationRequested(reserved) => {
                self.orphans.remove(&reserved.uid);
            }
            Event::ActionBegan(ActionTarget::Container(id)) => {
                self.acted.entry(id.clone()).or_default().push(record.at);
            }
            Event::PodHttpRequested => self.requested.push(record.at),
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
    use model::observed::ContainerState::{Created, Exited, Running};

    use super::*;
    use crate::invariants::tests::{breaks, container, pod, seconds, stop, wanted, with};
    use crate::plan::{Action, Policy, RestartRule};

    /// Whether events at these seconds break the invariant.
    fn found(events: impl IntoIterator<Item = (u64, Event)>) -> bool {
        breaks(FullGrace::default(), events)
    }

    fn acts(id: &str) -> Event {
        Event::ActionBegan(ActionTarget::Container(id.into()))
    }

    fn version(change: impl FnOnce(&mut PodPlan)) -> Event {
        let mut pod = (*pod(Policy::Always)).clone();
        change(&mut pod);
        Event::Wanted("u".into(), Arc::new(pod))
    }

    fn read() -> Event {
        Event::OriginRead(pod(Policy::Always).origin())
    }

    fn runs(name: &str) -> Event {
        container(name, 0, Running, Created)
    }

    #[test]
    fn finds_grace_shorter_than_the_pod_spec() {
        let gone = || Event::Unwanted("u".into());
        let again = || Event::AgentStarted(2);
        let short = |between: Vec<Event>| {
            let first = [(1, wanted(Policy::Always)), (1, read()), (2, runs("a"))].into_iter();
            let between = between.into_iter().map(|event| (50, event));
            found(first.chain(between).chain([(100, stop("a0", 29))]))
        };
        assert!(short(vec![]) && short(vec![gone()]), "wanted or not");
        assert!(!short(vec![again()]) && !short(vec![again(), gone(), read()]), "an orphan");
        assert!(short(vec![again(), read(), gone()]));
        let reserved = || crate::history::ReservedName { uid: "u".into(), name: None, attempt: 1 };
        let came_back = || vec![wanted(Policy::Always), read()];
        for met in [
            vec![again(), gone()],
            vec![gone(), again()],
            vec![again(), gone(), stop("a0", 2)],
            vec![again(), stop("a0", 2)],
        ] {
            let as_orphan = [met, came_back()].concat();
            assert!(!short(as_orphan.clone()), "an orphan stays one until its end");
            let anew = [as_orphan, vec![Event::CreationRequested(reserved())]].concat();
            assert!(short(anew), "it has started over");
        }
        assert!(!short(vec![version(|pod| pod.grace = 29)]), "by the other version");
        assert!(short(vec![acts("a0")]), "no container came before it");
    }

    #[test]
    fn no_grace_when_the_whole_pod_restarts() {
        let rule = RestartRule { policy: Policy::Never, action: Action::RestartAll };
        let starts_over = || version(|pod| pod.init[1].extras.rule = Some(rule));
        let ended = |code| with(container("side", 0, Exited, Running), |one| one.exit_code = code);
        let short = |ends: Vec<Event>| {
            let first = [starts_over(), read(), runs("a"), runs("side")].map(|event| (1, event));
            let ends = ends.into_iter().map(|event| (50, event));
            found(first.into_iter().chain(ends).chain([(100, stop("a0", 2))]))
        };
        assert!(short(vec![]) && short(vec![ended(1)]) && !short(vec![ended(3)]));
    }

    #[test]
    fn time_of_the_pre_stop_hook_is_subtracted() {
        let hooked = |hook| version(move |pod| pod.containers[0].extras.pre_stop = Some(hook));
        let short_by = |began, hook, grace| {
            let first = [(1, hooked(hook)), (1, read()), (2, runs("a")), began];
            found(first.into_iter().chain([(100, stop("a0", grace))]))
        };
        let short = |hook, began, grace| short_by((began, acts("a0")), hook, grace);
        assert!(short(Hook::Sleep(4), 3, 25) && !short(Hook::Sleep(4), 3, 26));
        let exec = Hook::Exec(seconds(1), 0);
        assert!(short(exec, 90, 19) && !short(exec, 90, 20));
        assert!(short(exec, 50, 29), "that was for an earlier stop");
        assert!(!short(exec, 70, 2) && short(exec, 70, 1), "the minimum");
        let by_request = |at, grace| short_by((at, Event::PodHttpRequested), Hook::Http, grace);
        assert!(short(Hook::Http, 90, 29) && by_request(90, 19) && !by_request(90, 20));
    }

    #[test]
    fn waiting_time_of_a_sidecar_is_subtracted() {
        let short = |first: Event, grace| {
            let events = [first, read(), runs("a"), runs("side")].map(|event| (1, event));
            let end = [(90, acts("a0")), (100, stop("side0", grace))];
            found(events.into_iter().chain(end))
        };
        assert!(short(wanted(Policy::Always), 19) && !short(wanted(Policy::Always), 20));
        let hooked = |hook| version(move |pod| pod.containers[0].extras.pre_stop = Some(hook));
        let sleeps = || hooked(Hook::Sleep(5));
        assert!(short(sleeps(), 14) && !short(sleeps(), 15));
        assert!(short(hooked(Hook::Http), 19));
    }
}
