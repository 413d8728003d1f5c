//! Hooks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::ids::{ContainerId, PodUid};

use super::Invariant;
use super::pod_restart::PodRestart;
use crate::history::{Event, Instance, Record};
use crate::plan::{ContainerPlan, Hook, PodPlan};

/// How long after the end of a grace an action may still count for it.
const SLACK: Duration = Duration::from_secs(1);

/// How long after its start a container is linked to its log, where files are slow.
const LINKED: Duration = Duration::from_secs(10);

/// A postStart hook runs unless the pod is terminated, and a container whose hook failed is stopped. A preStop
/// hook runs at every attempt, also for a pod that is known from the runtime only; without a grace it does not
/// run. The pod of an HTTP request is unknown.
#[derive(Debug, Default)]
pub(super) struct HooksRun {
    /// All versions of each pod: an agent may use an earlier one.
    pods: BTreeMap<PodUid, Vec<Arc<PodPlan>>>,
    starting_over: PodRestart,
    containers: BTreeMap<ContainerId, Arc<Instance>>,
    /// The commands that this agent executed in a container since its last stop request.
    commands: BTreeMap<ContainerId, BTreeSet<Vec<String>>>,
    /// When it last sent an HTTP request to a pod.
    requested: Option<Duration>,
    /// Pods that were not wanted at some time during the life of this agent, so that it cancels
    /// their work.
    gone: BTreeSet<PodUid>,
    /// The deadlines of postStart hooks of just started containers.
    started: BTreeMap<ContainerId, Duration>,
    /// The deadlines to stop containers whose hook failed.
    failed: BTreeMap<ContainerId, Duration>,
}

impl HooksRun {
    /// The container of an instance in the versions of its pod.
    fn plans(&self, one: &Instance) -> impl Iterator<Item = (&Arc<PodPlan>, &ContainerPlan)> {
        let versions = self.pods.get(&one.uid).into_iter().flatten();
        versions.filter_map(|pod| Some((pod, pod.container(&one.name)?)))
    }

    /// Like `plans`, but only versions with this command as `postStart` hook, or with any hook.
    fn hooked(
        &self,
        one: &Instance,
        command: Option<&[String]>,
    ) -> impl Iterator<Item = &Arc<PodPlan>> {
        let is_it = move |plan: &ContainerPlan| {
            let hook = plan.extras.post_start.and_then(Hook::command);
            hook.is_some_and(|hook| command.is_none_or(|command| hook == command))
        };
        self.plans(one).filter(move |(_, plan)| is_it(plan)).map(|(pod, _)| pod)
    }

    fn has_started(&mut self, id: &ContainerId, at: Duration) {
        let Some(one) = self.containers.get(id) else { return };
        let is_always_hooked = self.hooked(one, None).count() == self.plans(one).count();
        if self.hooked(one, None).next().is_some() && is_always_hooked {
            self.started.insert(id.clone(), at + LINKED);
        }
    }

    fn exec_requested(&mut self, id: &ContainerId, command: &[String]) {
        self.commands.entry(id.clone()).or_default().insert(command.to_vec());
        let Some(one) = self.containers.get(id) else { return };
        if self.hooked(one, Some(command)).next().is_some() {
            self.started.remove(id);
        }
    }

    fn stop_requested_for(&mut self, id: &ContainerId, at: Duration) -> Result<(), String> {
        self.failed.remove(id);
        self.started.remove(id);
        let executed = self.commands.remove(id).unwrap_or_default();
        let Some(one) = self.containers.get(id) else { return Ok(()) };
        if self.starting_over.contains(&one.uid) {
            return Ok(());
        }
        let has_run = |(pod, plan): (&Arc<PodPlan>, &ContainerPlan)| match plan.extras.pre_stop {
            _ if pod.grace == 0 => true,
            Some(hook @ Hook::Exec(..)) => {
                hook.command().is_some_and(|command| executed.contains(&command))
            }
            Some(Hook::Http) => {
                let within = Duration::from_secs(pod.grace) + SLACK;
                self.requested.is_some_and(|requested| at <= requested + within)
            }
            Some(Hook::Sleep(_)) | None => true,
        };
        let mut plans = self.plans(one).peekable();
        if plans.peek().is_none() || plans.any(has_run) {
            return Ok(());
        }
        Err(format!("{id} is stopped, and its preStop hook has not run"))
    }

    fn command_failed(&mut self, id: &ContainerId, command: &[String], at: Duration) {
        let wanted = |one: &&Arc<Instance>| !self.gone.contains(&one.uid);
        let Some(one) = self.containers.get(id).filter(wanted) else { return };
        let grace = self.hooked(one, Some(command)).map(|pod| pod.grace).max();
        if let Some(grace) = grace {
            self.failed.insert(id.clone(), at + Duration::from_secs(grace) + SLACK);
        }
    }

    /// Reports an overdue container.
    fn overdue(&self, at: Duration) -> Result<(), String> {
        let lives = |id: &ContainerId| self.containers.get(id).filter(|one| one.may_live());
        let is_late = |(id, by): &(&ContainerId, &Duration)| at > **by && lives(id).is_some();
        if let Some((id, _)) = self.failed.iter().find(is_late) {
            return Err(format!("{id} keeps running after its postStart hook failed"));
        }
        let stays = |id| lives(id).is_some_and(|one| !self.gone.contains(&one.uid));
        match self.started.iter().find(|late| is_late(late) && stays(late.0)) {
            Some((id, _)) => Err(format!("{id} runs without its postStart hook")),
            None => Ok(()),
        }
    }
}

impl Invariant for HooksRun {
    fn sentence(&self) -> &'static str {
        "postStart hooks run, and stop their container if they fail, and preStop hooks run"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        self.starting_over.take(&record.event);
        match &record.event {
            Event::Wanted(uid, pod) => {
                self.pods.entry(uid.clone()).or_default().push(Arc::clone(pod));
            }
            Event::Unwanted(uid) => {
                self.gone.insert(uid.clone());
            }
            Event::AgentDied | Event::AgentStarted(_) => {
                self.overdue(record.at)?;
                self.commands.clear();
                self.requested = None;
                self.gone.clear();
                self.started.clear();
                self.failed.clear();
            }
            Event::Container(one, _) => {
                self.containers.insert(one.id.clone(), Arc::clone(one));
            }
            Event::Started(id) => self.has_started(id, record.at),
            Event::ExecRequested(id, command) => self.exec_requested(id, command),
            Event::ExecEnded(id, command, code) if *code != Some(0) => {
                self.command_failed(id, command, record.at);
            }
            Event::PodHttpRequested => self.requested = Some(record.at),
            Event::StopRequested(id, _) => self.stop_requested_for(id, record.at)?,
            _ => {}
        }
        self.overdue(record.at)
    }
}

#[cfg(test)]
mod tests {
    use model::observed::ContainerState::{Created, Exited, Running};

    use super::*;
    use crate::invariants::tests::{breaks, container, pod, seconds, with};
    use crate::plan::{Action, Policy, RestartRule};

    const HOOK: Hook = Hook::Exec(Duration::from_secs(1), 0);
    const FAILS: Hook = Hook::Exec(Duration::from_secs(1), 1);

    /// Whether events at these seconds break the invariant, with a changed pod.
    fn found(
        change: impl FnOnce(&mut PodPlan),
        events: impl IntoIterator<Item = (u64, Event)>,
    ) -> bool {
        let mut pod = (*pod(Policy::Always)).clone();
        change(&mut pod);
        let first = [
            (1, Event::Wanted("u".into(), Arc::new(pod))),
            (2, container("a", 0, Running, Created)),
        ];
        breaks(HooksRun::default(), first.into_iter().chain(events))
    }

    fn command(hook: Hook) -> Vec<String> {
        hook.command().unwrap()
    }

    fn executed(hook: Hook) -> Event {
        Event::ExecRequested("a0".into(), command(hook))
    }

    fn stop() -> Event {
        Event::StopRequested("a0".into(), seconds(30))
    }

    fn ends_with(hook: Hook) -> impl FnOnce(&mut PodPlan) {
        move |pod| pod.containers[0].extras.pre_stop = Some(hook)
    }

    fn starts_with(hook: Hook) -> impl FnOnce(&mut PodPlan) {
        move |pod| pod.containers[0].extras.post_start = Some(hook)
    }

    #[test]
    fn finds_stop_before_the_pre_stop_hook() {
        let again = || Event::AgentStarted(2);
        let rows = [
            (vec![stop()], true),
            (vec![executed(HOOK), stop()], false),
            (vec![executed(FAILS), stop()], true),
            (vec![executed(HOOK), stop(), stop()], true),
            (vec![executed(HOOK), stop(), executed(HOOK), stop()], false),
            (vec![executed(HOOK), again(), stop()], true),
        ];
        for (events, expected) in rows {
            let at_once = events.iter().cloned().map(|event| (50, event));
            assert_eq!(found(ends_with(HOOK), at_once), expected, "{events:?}");
        }
        assert!(!found(|_| {}, [(50, stop())]), "it has none");
        let in_no_time = |pod: &mut PodPlan| {
            ends_with(HOOK)(pod);
            pod.grace = 0;
        };
        assert!(!found(in_no_time, [(50, stop())]));
    }

    #[test]
    fn http_hook_request_is_made_within_the_grace() {
        let requests = |at| [(at, Event::PodHttpRequested), (90, stop())];
        assert!(found(ends_with(Hook::Http), [(90, stop())]));
        assert!(found(ends_with(Hook::Http), requests(58)));
        assert!(!found(ends_with(Hook::Http), requests(60)));
    }

    #[test]
    fn no_pre_stop_hook_when_the_whole_pod_restarts() {
        let starts_over = |pod: &mut PodPlan| {
            ends_with(HOOK)(pod);
            let rule = RestartRule { policy: Policy::Never, action: Action::RestartAll };
            pod.init[1].extras.rule = Some(rule);
        };
        let ended = |code| with(container("side", 0, Exited, Running), |one| one.exit_code = code);
        assert!(!found(starts_over, [(40, ended(3)), (50, stop())]));
        assert!(found(starts_over, [(40, ended(1)), (50, stop())]));
    }

    #[test]
    fn finds_container_running_after_its_post_start_hook_failed() {
        let ended = |code| Event::ExecEnded("a0".into(), command(FAILS), code);
        let exited = || container("a", 0, Exited, Running);
        let later = || (82, Event::ClockJumped);
        let rows = [
            (vec![(50, ended(Some(1))), later()], true),
            (vec![(50, ended(None)), later()], true),
            (vec![(50, ended(Some(0))), later()], false),
            (vec![(52, ended(Some(1))), later()], false),
            (vec![(50, ended(Some(1))), (70, stop()), later()], false),
            (vec![(50, ended(Some(1))), (70, exited()), later()], false),
            // It may have been cancelled in the same moment.
            (vec![(49, Event::Unwanted("u".into())), (50, ended(Some(1))), later()], false),
            // Another agent does not know it.
            (vec![(50, ended(Some(1))), (70, Event::AgentDied), later()], false),
            (vec![(50, ended(Some(1))), (90, Event::AgentDied), later()], true),
        ];
        for (events, expected) in rows {
            assert_eq!(found(starts_with(FAILS), events.clone()), expected, "{events:?}");
            assert!(!found(starts_with(HOOK), events), "it is another command");
        }
    }

    #[test]
    fn finds_missing_post_start_hook() {
        let started = || (50, Event::Started("a0".into()));
        let later = || (61, Event::ClockJumped);
        let rows = [
            (vec![started(), later()], true),
            (vec![later()], false),
            (vec![started(), (60, executed(HOOK)), later()], false),
            (vec![started(), (60, executed(FAILS)), later()], true),
            (vec![started(), (60, stop()), later()], false),
            (vec![started(), (60, container("a", 0, Exited, Running)), later()], false),
            // Nothing waits for it then.
            (vec![started(), (55, Event::Unwanted("u".into())), later()], false),
            (vec![(45, Event::Unwanted("u".into())), started(), later()], false),
            (vec![started(), (55, Event::AgentDied), later()], false),
        ];
        for (events, expected) in rows {
            assert_eq!(found(starts_with(HOOK), events.clone()), expected, "{events:?}");
            assert!(!found(|_| {}, events), "it has none");
        }
    }
}
