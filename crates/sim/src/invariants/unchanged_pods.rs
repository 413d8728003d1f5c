//! Running containers of unchanged pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::ids::{ContainerId, PodUid, SandboxId};
use model::observed::{ContainerState, SandboxState};

use super::Invariant;
use crate::history::{Event, Instance, Record};
use crate::plan::{ContainerPlan, PodPlan};

/// A container is not stopped while its pod is wanted and unchanged, in its only sandbox. There are exceptions:
/// its deadline has passed, its sidecars are not needed any more, a hook failed, the whole pod restarts; and
/// the runtime lost a container's state, or has two instances of it.
#[derive(Debug, Default)]
pub(super) struct UnchangedPods {
    /// Wanted pods in their first version.
    pods: BTreeMap<PodUid, Arc<PodPlan>>,
    /// Pods that were ever changed or removed.
    changed: BTreeSet<PodUid>,
    /// The only sandbox of a pod so far, while it is ready.
    homes: BTreeMap<PodUid, Option<SandboxId>>,
    containers: BTreeMap<ContainerId, Arc<Instance>>,
    /// Containers whose state was unknown at some time.
    lost: BTreeSet<ContainerId>,
}

impl UnchangedPods {
    fn stop_requested_for(&self, id: &ContainerId) -> Result<(), String> {
        let runs = |one: &&Arc<Instance>| one.state == Some(ContainerState::Running);
        let Some(one) = self.containers.get(id).filter(runs) else { return Ok(()) };
        let pod = self.pods.get(&one.uid).filter(|_| !self.changed.contains(&one.uid));
        let plan = pod.and_then(|pod| Some((pod, pod.container(&one.name)?)));
        let Some((pod, plan)) = plan else { return Ok(()) };
        let is_at_home = self.homes.get(&one.uid) == Some(&Some(one.sandbox.clone()));
        if is_at_home && !self.has_to_go(pod, plan, one) {
            return Err(format!("{id} runs, is wanted, and is stopped"));
        }
        Ok(())
    }

    fn has_to_go(&self, pod: &PodPlan, plan: &ContainerPlan, one: &Instance) -> bool {
        let others = || self.containers.values().filter(|other| other.uid == one.uid);
        let is_one_of_two = others().any(|other| {
            other.name == one.name
                && other.id != one.id
                && (other.may_live() || other.succeeds(one))
        });
        pod.deadline.is_some()
            || pod.restarts_all()
            || plan.extras.post_start.is_some()
            || self.lost.contains(&one.id)
            || is_one_of_two
            || (plan.sidecar && may_end(pod) && self.is_over(pod, &one.uid))
    }

    /// Whether no regular container of a pod runs: then its sidecars are not needed, unless one restarts.
    fn is_over(&self, pod: &PodPlan, uid: &PodUid) -> bool {
        let counts = |name: &str| pod.container(name).is_some_and(|plan| !plan.sidecar);
        let mut all = self.containers.values().filter(|one| one.uid == *uid && counts(&one.name));
        // A container that is lost or removed may have ended for good.
        !all.any(|one| one.state == Some(ContainerState::Running))
    }
}

/// Whether a pod may end by itself, by its containers or by a failed init container.
fn may_end(pod: &PodPlan) -> bool {
    let fails = |init: &ContainerPlan| !(1..=255).all(|code| init.restarts(pod.policy, code));
    pod.may_finish() || pod.init.iter().any(|init| !init.sidecar && fails(init))
}

impl Invariant for UnchangedPods {
    fn sentence(&self) -> &'static str {
        "a running container of an unchanged pod is not stopped"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::Wanted(uid, pod) => {
                let before = self.pods.insert(uid.clone(), Arc::clone(pod));
                self.changed.extend(before.map(|_| uid.clone()));
            }
            Event::Unwanted(uid) => {
                self.changed.insert(uid.clone());
            }
            Event::Sandbox(id, uid, state) => {
                let is_first = !self.homes.contains_key(uid);
                let home = (is_first && *state == SandboxState::Ready).then(|| id.clone());
                self.homes.insert(uid.clone(), home);
            }
            Event::Container(one, _) => {
                if one.state == Some(ContainerState::Unknown) {
                    self.lost.insert(one.id.clone());
                }
                self.containers.insert(one.id.clone(), Arc::clone(one));
            }
            Event::StopRequested(id, _) => return self.stop_requested_for(id),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use model::observed::ContainerState::{Created, Exited, Running, Unknown};

    use super::*;
    use crate::invariants::tests::{breaks, container, pod, stop, wanted};
    use crate::plan::{Action, Hook, Policy, RestartRule};

    fn sandbox(id: &str, state: SandboxState) -> Event {
        Event::Sandbox(id.into(), "u".into(), state)
    }

    fn version(change: impl FnOnce(&mut PodPlan)) -> Event {
        let mut pod = (*pod(Policy::Always)).clone();
        change(&mut pod);
        Event::Wanted("u".into(), Arc::new(pod))
    }

    /// Whether stopping a container breaks the invariant, in a pod with these settings after these events.
    fn found(first: Event, between: Vec<Event>, ends: &str) -> bool {
        let runs = |name| container(name, 0, Running, Created);
        let start = [first, sandbox("s", SandboxState::Ready), runs("side"), runs("a")];
        let all = start.into_iter().chain(between).chain([stop(ends, 30)]);
        breaks(UnchangedPods::default(), (1..).zip(all))
    }

    #[test]
    fn finds_stop_of_an_unchanged_wanted_pod() {
        let ends = |between| found(wanted(Policy::Always), between, "a0");
        assert!(ends(vec![]) && ends(vec![Event::AgentStarted(2)]));
        for why in [
            Event::Unwanted("u".into()),
            wanted(Policy::Never),
            sandbox("s", SandboxState::NotReady),
            sandbox("other", SandboxState::Ready),
            container("a", 0, Exited, Running),
            container("a", 1, Created, Created),
        ] {
            assert!(!ends(vec![why.clone()]), "{why:?}");
        }
        let lost = vec![container("a", 0, Unknown, Running), container("a", 0, Running, Unknown)];
        assert!(!ends(lost));
        assert!(ends(vec![Event::Unwanted("another".into())]));
    }

    #[test]
    fn stop_is_allowed_for_reasons_of_the_pod() {
        let rule = RestartRule { policy: Policy::Never, action: Action::RestartAll };
        for (first, expected) in [
            (version(|pod| pod.deadline = Some(30)), false),
            (version(|pod| pod.init[0].extras.rule = Some(rule)), false),
            (version(|pod| pod.containers[0].extras.post_start = Some(Hook::Http)), false),
            (version(|pod| pod.init[1].extras.post_start = Some(Hook::Http)), true),
        ] {
            assert_eq!(found(first.clone(), vec![], "a0"), expected, "{first:?}");
        }
    }

    #[test]
    fn sidecar_may_stop_when_nothing_else_runs() {
        let ends = |between| found(wanted(Policy::Never), between, "side0");
        assert!(ends(vec![]) && !ends(vec![container("a", 0, Exited, Running)]));
        let lasting = vec![container("a", 0, Exited, Running)];
        assert!(found(wanted(Policy::Always), lasting, "side0"), "it starts again");
        let other = container("b", 0, Running, Created);
        assert!(!ends(vec![container("a", 0, Exited, Running), other]), "it is not of this pod");
    }
}
