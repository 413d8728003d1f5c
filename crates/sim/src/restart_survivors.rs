//! Pods that restart as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::ids::{ContainerId, PodUid, SandboxId};
use model::observed::{ContainerState, SandboxState};

use crate::history::{Event, Instance, Record, Removed};
use crate::invariants::caps::CAPS;
use crate::plan::PodPlan;

/// Finds containers that live although another container of their pod and sandbox has ended so that the whole
/// pod restarts. The end is visible until all containers of that time are removed; however late the agent sees
/// it, it stops the others.
#[derive(Debug, Default)]
pub(crate) struct RestartSurvivors {
    wanted: BTreeMap<PodUid, Arc<PodPlan>>,
    /// All existing containers.
    containers: BTreeMap<ContainerId, Arc<Instance>>,
    /// Containers that the agent requested to stop: their end is the agent's action, which knows how to
    /// continue.
    stop_requested: BTreeSet<ContainerId>,
    /// Containers that must end, and the ended one that is the reason.
    due: BTreeMap<ContainerId, ContainerId>,
}

impl RestartSurvivors {
    /// Processes the next records.
    pub(crate) fn read(&mut self, records: &[Record]) {
        for record in records {
            self.take(&record.event);
        }
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::Wanted(uid, pod) => {
                let before = self.wanted.insert(uid.clone(), Arc::clone(pod));
                if before.is_none_or(|before| before != *pod) {
                    self.forget(|one| one.uid == *uid);
                }
            }
            Event::Unwanted(uid) => {
                self.wanted.remove(uid);
                self.forget(|one| one.uid == *uid);
            }
            // The agent was about to replace the container for another reason, and has not seen its end.
            Event::StopRequested(id, _) => {
                self.stop_requested.insert(id.clone());
                self.due.retain(|_, ended| ended != id);
            }
            Event::RemovalRequested(Removed::Container(id), rule) if CAPS.contains(rule) => {
                self.capped(id);
            }
            Event::Sandbox(id, _, state) if *state != SandboxState::Ready => self.lost(id),
            Event::Container(one, was) => self.changed(one, *was),
            _ => {}
        }
    }

    fn forget(&mut self, is_excused: impl Fn(&Instance) -> bool) {
        let containers = &self.containers;
        self.due.retain(|id, _| containers.get(id).is_some_and(|one| !is_excused(one)));
    }

    /// All containers restart in the next sandbox anyway.
    fn lost(&mut self, sandbox: &SandboxId) {
        self.forget(|one| one.sandbox == *sandbox);
    }

    /// When a cap removes the last instance, its end may not be recorded anywhere.
    fn capped(&mut self, id: &ContainerId) {
        let Some(one) = self.containers.get(id) else { return };
        if !self.containers.values().any(|other| other.succeeds(one)) {
            self.due.retain(|_, ended| ended != id);
        }
    }

    fn changed(&mut self, one: &Arc<Instance>, was: Option<ContainerState>) {
        if !one.may_live() {
            self.due.remove(&one.id);
        }
        if one.state.is_none() {
            self.containers.remove(&one.id);
            return;
        }
        self.containers.insert(one.id.clone(), Arc::clone(one));
        let has_ended = one.state == Some(ContainerState::Exited) && was != one.state;
        if has_ended && !self.stop_requested.contains(&one.id) && self.is_the_end_of_all(one) {
            let lives = |other: &&Arc<Instance>| {
                (&other.uid, &other.sandbox) == (&one.uid, &one.sandbox) && other.may_live()
            };
            let others = self.containers.values().filter(lives);
            self.due.extend(others.map(|other| (other.id.clone(), one.id.clone())));
        }
    }

    fn is_the_end_of_all(&self, one: &Instance) -> bool {
        let plan = self.wanted.get(&one.uid).and_then(|pod| pod.container(&one.name));
        let rule = plan.and_then(|plan| plan.extras.rule);
        rule.is_some_and(|rule| rule.restarts_all(one.exit_code))
    }

    /// Containers that live, and the ended one that should have stopped them.
    pub(crate) fn due(&self) -> BTreeMap<ContainerId, ContainerId> {
        self.due.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::observed::ContainerState::{Created, Exited, Running, Unknown};

    use super::*;
    use crate::plan::{Action, Policy, RestartRule};
    use crate::settled::tests::{instance, pod};

    fn wanted(revision: u64) -> Event {
        let mut pod = PodPlan { revision, ..pod(Policy::Always) };
        let (policy, action) = (Policy::Always, Action::RestartAll);
        pod.containers[0].extras.rule = Some(RestartRule { policy, action });
        Event::Wanted("u".into(), Arc::new(pod))
    }

    fn seen(one: Instance, was: ContainerState) -> Event {
        Event::Container(Arc::new(one), Some(was))
    }

    fn runs(name: &str, attempt: u32) -> Event {
        seen(instance(name, attempt, Running), Created)
    }

    fn ends(name: &str, exit_code: i32) -> Event {
        seen(Instance { exit_code, ..instance(name, 0, Exited) }, Running)
    }

    #[test]
    fn containers_alive_after_a_pod_restart_are_due() {
        let lost = || seen(instance("b", 0, Unknown), Running);
        let elsewhere =
            || seen(Instance { sandbox: "t".into(), ..instance("c", 0, Running) }, Created);
        let stopped = |id: &str| Event::StopRequested(id.into(), Duration::ZERO);
        let capped =
            || Event::RemovalRequested(Removed::Container("a0".into()), "per-container-cap");
        let dead = |id: &str| Event::Sandbox(id.into(), "u".into(), SandboxState::NotReady);
        let gone = || Event::Unwanted("u".into());
        let rows = [
            (vec![ends("a", 3)], 1),
            (vec![ends("a", 137), elsewhere()], 1),
            (vec![elsewhere(), ends("a", 3)], 1),
            (vec![ends("a", 1)], 0),
            (vec![ends("b", 3)], 0),
            (vec![lost(), ends("a", 3)], 1),
            // It has ended too, or just started.
            (vec![ends("a", 3), ends("b", 0)], 0),
            (vec![ends("a", 3), ends("b", 0), runs("b", 1)], 0),
            // The ended container restarts alone.
            (vec![ends("a", 3), runs("a", 1)], 1),
            (vec![ends("a", 3), runs("a", 1), capped()], 1),
            (vec![ends("a", 3), capped()], 0),
            // The agent stopped it, or was about to.
            (vec![stopped("a0"), ends("a", 137)], 0),
            (vec![ends("a", 3), stopped("a0")], 0),
            (vec![ends("a", 3), stopped("b0")], 1),
            // The pod has another sandbox, is another one or not wanted.
            (vec![ends("a", 3), dead("s")], 0),
            (vec![ends("a", 3), dead("t")], 1),
            (vec![ends("a", 3), wanted(0)], 1),
            (vec![ends("a", 3), wanted(1)], 0),
            (vec![ends("a", 3), gone(), wanted(0)], 0),
            (vec![gone(), ends("a", 3)], 0),
        ];
        for (row, (events, expected)) in rows.into_iter().enumerate() {
            let mut over = RestartSurvivors::default();
            for event in [wanted(0), runs("a", 0), runs("b", 0)].iter().chain(&events) {
                over.take(event);
            }
            assert_eq!(over.due().len(), expected, "row {row}: {events:?}");
        }
    }
}
