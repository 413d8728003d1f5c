//! Checks that a new agent leaves a settled node unchanged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::ids::{ContainerId, PodUid, SandboxId};
use model::log_layout::LogLayout;
use model::observed::{ContainerState, SandboxState};

use crate::history::{
    CgroupWrite, Event, ImagePull, Instance, ObjectRef, Record, Removed, ReservedName,
};
use crate::invariants::caps::CAPS;
use crate::invariants::removals::{BY_WORKERS, LOGS};
use crate::late_removals::Capped;
use crate::plan::{ContainerPlan, PodPlan};
use crate::settled::{Snapshot, Wanted};

/// An action of a new agent that it should not have taken: a settled node stays unchanged, and only containers
/// that ended are started again.
pub fn unexpected_action(before: &Snapshot, news: &[Record], wanted: &Wanted) -> Option<String> {
    let mut quiet = SettledNode::new(before, wanted);
    news.iter().find_map(|record| quiet.read(&record.event))
}

/// The state of a settled node, and the changes since.
#[derive(Debug)]
struct SettledNode<'a> {
    before: &'a Snapshot,
    wanted: &'a Wanted,
    /// The last instance of each container.
    latest: BTreeMap<(PodUid, Arc<str>), Instance>,
    /// The ready sandboxes, with their pods.
    ready: BTreeMap<SandboxId, PodUid>,
    /// Pods that had ended before.
    over: BTreeSet<PodUid>,
    /// The containers that caps removed since.
    capped: Capped,
    /// Pods that were observed to restart as a whole.
    starting_over: BTreeSet<PodUid>,
    /// Images that were missing at their first pull.
    missed: BTreeSet<String>,
}

impl<'a> SettledNode<'a> {
    fn new(before: &'a Snapshot, wanted: &'a Wanted) -> Self {
        let mut latest: BTreeMap<(PodUid, Arc<str>), Instance> = BTreeMap::new();
        for one in &before.containers {
            let key = (one.uid.clone(), Arc::clone(&one.name));
            let newer = latest.get(&key).is_none_or(|other| other.attempt < one.attempt);
            if newer {
                latest.insert(key, one.clone());
            }
        }
        let ready = before.sandboxes.iter().filter(|sandbox| sandbox.ready);
        let ready = ready.map(|sandbox| (sandbox.id.clone(), sandbox.uid.clone())).collect();
        let mut capped = Capped::default();
        for one in &before.containers {
            capped.take(&Event::Container(Arc::new(one.clone()), None));
        }
        let (over, starting_over, missed) = Default::default();
        let mut quiet = Self { before, wanted, latest, ready, over, capped, starting_over, missed };
        let starts_over = before.containers.iter().filter(|one| quiet.is_the_end_of_all(one));
        quiet.starting_over = starts_over.map(|one| one.uid.clone()).collect();
        let between = wanted.keys().filter(|uid| quiet.is_between_two_starts(uid));
        quiet.starting_over.extend(between.cloned().collect::<Vec<_>>());
        let over = wanted.keys().filter(|uid| !before.lives(uid) || quiet.has_ended(uid));
        quiet.over = over.cloned().collect();
        quiet
    }

    fn read(&mut self, event: &Event) -> Option<String> {
        self.capped.take(event);
        match event {
            Event::StopRequested(id, _) => self.stops(id),
            Event::SandboxStopRequested(id) => self.stops_sandbox(id),
            Event::CreationRequested(reserved) => self.makes(reserved),
            // A removed container had ended.
            Event::Container(one, was) if one.state.is_some() => {
                if self.is_the_end_of_all(one) {
                    self.starting_over.insert(one.uid.clone());
                }
                let key = (one.uid.clone(), Arc::clone(&one.name));
                let has_turn = was.is_some() || self.has_its_turn(&key);
                self.latest.insert(key, (**one).clone());
                (!has_turn).then(|| format!("creates {} beside one that did not end", one.id))
            }
            Event::Sandbox(id, uid, state) => {
                if *state == SandboxState::Ready {
                    self.ready.insert(id.clone(), uid.clone());
                } else {
                    self.ready.remove(id);
                }
                None
            }
            Event::ResizeRequested(id) => {
                let owner = self.latest.values().find(|one| one.id == *id).map(|one| &one.uid);
                self.resizes(owner).then(|| format!("resizes {id}"))
            }
            Event::SandboxResizeRequested(id) => {
                self.resizes(self.ready.get(id)).then(|| format!("resizes {id}"))
            }
            Event::PullRequested(pull) => self.pulls(pull),
            Event::CgroupWritten(write) => self.writes(write),
            Event::RemovalRequested(removed, rule) => self.removes(removed, rule),
            Event::RemovalBegan(object, rule) if object.kind == "log" => {
                self.removes_logs(object, rule)
            }
            _ => None,
        }
    }

    /// Whether a resize of a pod is unexpected. A pod whose end is not recorded runs again, and then gets the
    /// resources that were not applied after its end.
    fn resizes(&self, owner: Option<&PodUid>) -> bool {
        !owner.is_some_and(|uid| self.has_late_removals(uid))
    }

    /// Whether a container has ended so that its whole pod restarts.
    fn is_the_end_of_all(&self, one: &Instance) -> bool {
        let plan = self.wanted.get(&one.uid).and_then(|pod| pod.container(&one.name));
        let rule = plan.and_then(|plan| plan.extras.rule);
        let has_ended = one.state == Some(ContainerState::Exited);
        has_ended && rule.is_some_and(|rule| rule.restarts_all(one.exit_code))
    }

    /// Whether a whole pod restarts although the container that caused it was removed already, as all its
    /// containers are first.
    fn is_between_two_starts(&self, uid: &PodUid) -> bool {
        let instance = |name: &str| self.latest.get(&(uid.clone(), name.into()));
        let Some(pod) = self.wanted.get(uid) else { return false };
        let is_gone =
            |one: &ContainerPlan| one.extras.restarts_all() && instance(one.name).is_none();
        let has_run_before =
            |one: &ContainerPlan| instance(one.name).is_some_and(|latest| latest.attempt > 0);
        pod.all().any(is_gone) && pod.all().any(has_run_before)
    }

    /// For a wanted pod, only containers beyond a cap, sandboxes older than another one, and objects that block
    /// the restart of a container are removed.
    fn removes(&self, removed: &Removed, rule: &str) -> Option<String> {
        let (id, uid) = match removed {
            Removed::Container(id) => {
                let mut known = self.before.containers.iter();
                (id.as_str(), known.find(|one| one.id == *id).map(|one| &one.uid)?)
            }
            Removed::Sandbox(id) => {
                let mut known = self.before.sandboxes.iter();
                (id.as_str(), known.find(|one| one.id == *id).map(|one| &one.uid)?)
            }
        };
        let pod = self.wanted.get(uid)?;
        let is_in_the_way = || {
            let has_turn = |one: &ContainerPlan| self.has_its_turn(&(uid.clone(), one.name.into()));
            BY_WORKERS.contains(&rule) && pod.all().any(has_turn)
        };
        let may = CAPS.contains(&rule) || rule == "sandbox-older" || is_in_the_way();
        (!may).then(|| format!("removes {id} of {uid} by {rule}"))
    }

    /// The logs of a wanted pod are removed with its containers, one by one.
    fn removes_logs(&self, object: &ObjectRef, rule: &str) -> Option<String> {
        let directory = object.id.strip_prefix(LOGS).filter(|below| !below.contains('/'))?;
        let uid = LogLayout::pod_of_directory(directory);
        self.wanted.contains_key(&uid).then(|| format!("removes {} by {rule}", object.id))
    }

    fn stops(&self, id: &ContainerId) -> Option<String> {
        let owner = self.latest.values().find(|one| one.id == *id).map(|one| &one.uid);
        // An ended pod may have sidecars left.
        let may = owner.is_some_and(|uid| {
            let may_end = self.has_deadline(uid) || self.has_ended(uid);
            may_end || self.never_settles(uid) || self.has_late_removals(uid)
        });
        (!may).then(|| format!("stops {id}"))
    }

    /// A sandbox that is not ready may be stopped again by an agent that does not know that it was stopped.
    fn stops_sandbox(&self, id: &SandboxId) -> Option<String> {
        let uid = self.ready.get(id)?;
        (!self.may_end(uid)).then(|| format!("stops {id} of {uid}"))
    }

    fn makes(&self, reserved: &ReservedName) -> Option<String> {
        let ReservedName { uid, name, .. } = reserved;
        match name {
            None if self.has_time_again(uid) => None,
            None => Some(format!("creates a sandbox for {uid}")),
            Some(name) if self.has_its_turn(&(uid.clone(), Arc::clone(name))) => None,
            Some(name) => Some(format!("creates {name} of {uid}, which did not end")),
        }
    }

    /// A removed image is pulled again for a container that restarts. Several workers may find it missing and
    /// pull it one after the other, when it is present already.
    fn pulls(&mut self, pull: &ImagePull) -> Option<String> {
        let ImagePull { image, is_there } = pull;
        if !is_there {
            self.missed.insert(image.clone());
        }
        let may_start = |(uid, pod): (&PodUid, &Arc<PodPlan>)| {
            let mut users = pod.all().filter(|container| container.image == image);
            users.any(|container| self.has_its_turn(&(uid.clone(), container.name.into())))
        };
        let may = self.missed.contains(image) && self.wanted.iter().any(may_start);
        (!may).then(|| format!("pulls {image}, which no container needs"))
    }

    /// The cgroup of a pod is unchanged unless the pod is added or removed, and the node's own cgroups change
    /// only with a pod that requests resources.
    fn writes(&self, write: &CgroupWrite) -> Option<String> {
        let CgroupWrite { call, pod, changes } = write;
        let moves = |uid: &PodUid| self.may_end(uid) || self.has_time_again(uid);
        let requests_resources = |(uid, pod): &(&PodUid, &Arc<PodPlan>)| {
            let is_over = self.over.contains(*uid) && !self.has_late_removals(uid);
            pod.milli() > 0 && !is_over && moves(uid)
        };
        let may = match pod {
            Some(uid) => moves(uid),
            None => !changes || self.wanted.iter().any(|pod| requests_resources(&pod)),
        };
        (!may).then(|| format!("unexpected {call}"))
    }

    /// Whether a container may be started: a pod whose deadline moved may continue, also with containers that
    /// had not run at its old deadline.
    fn has_its_turn(&self, key: &(PodUid, Arc<str>)) -> bool {
        let ended = |one: &Instance| one.state == Some(ContainerState::Exited);
        self.has_time_again(&key.0)
            || self.never_settles(&key.0)
            || self.latest.get(key).is_some_and(ended)
    }

    fn has_deadline(&self, uid: &PodUid) -> bool {
        self.wanted.get(uid).is_some_and(|pod| pod.deadline.is_some())
    }

    /// Some pods never come to rest, and some were observed to restart as a whole.
    fn never_settles(&self, uid: &PodUid) -> bool {
        let never_rests = |pod: &Arc<PodPlan>| pod.all().any(ContainerPlan::may_not_come_up);
        self.starting_over.contains(uid) || self.wanted.get(uid).is_some_and(never_rests)
    }

    /// Whether the deadline of a pod had passed before the clock was set back.
    fn has_time_again(&self, uid: &PodUid) -> bool {
        self.has_late_removals(uid)
            || self.before.has_time(uid, self.wanted.get(uid).map(|pod| &**pod))
    }

    /// Whether a pod may be terminated.
    fn may_end(&self, uid: &PodUid) -> bool {
        self.has_deadline(uid) || self.has_late_removals(uid) || self.has_ended(uid)
    }

    /// Whether the end of a pod, or of one of its containers, may be unrecorded.
    fn has_late_removals(&self, uid: &PodUid) -> bool {
        self.before.late_removals.contains(uid) || self.capped.pods().contains(uid)
    }

    /// Whether no container of a pod will run again.
    fn has_ended(&self, uid: &PodUid) -> bool {
        let Some(pod) = self.wanted.get(uid) else { return false };
        let ended = |container: &ContainerPlan| {
            let latest = self.latest.get(&(uid.clone(), container.name.into()))?;
            (latest.state == Some(ContainerState::Exited)).then_some(latest.exit_code)
        };
        let for_good = |container: &ContainerPlan| {
            ended(container).is_some_and(|code| !container.restarts(pod.policy, code))
        };
        let failed = |init: &ContainerPlan| {
            let code = ended(init).filter(|code| *code != 0 && !init.sidecar);
            code.is_some_and(|code| !init.restarts(pod.policy, code))
        };
        pod.containers.iter().all(for_good) || pod.init.iter().any(failed)
    }
}

#[cfg(test)]
#[path = "agent_restart_tests.rs"]
mod tests;
