//! Whether a new agent leaves a settled node as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::ids::{ContainerId, PodUid, SandboxId};
use model::observed::{ContainerState, SandboxState};

use crate::history::{CgroupWrite, Event, ImagePull, Instance, Maker, Record};
use crate::plan::{ContainerPlan, PodPlan};
use crate::settled::{Snapshot, Wanted};

/// What a new agent did that it should not have: a node that is settled is left as it is, and only
/// containers that ended are started again.
pub fn disturbed(before: &Snapshot, news: &[Record], wanted: &Wanted) -> Option<String> {
    let mut quiet = Quiet::new(before, wanted);
    news.iter().find_map(|record| quiet.read(&record.event))
}

/// A settled node, and what became of it since.
#[derive(Debug)]
struct Quiet<'a> {
    before: &'a Snapshot,
    wanted: &'a Wanted,
    /// The last instance of each container.
    latest: BTreeMap<(PodUid, Arc<str>), Instance>,
    /// The sandboxes that are ready, and whose they are.
    ready: BTreeMap<SandboxId, PodUid>,
    /// Pods that had come to their end before.
    over: BTreeSet<PodUid>,
}

impl<'a> Quiet<'a> {
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
        let mut quiet = Self { before, wanted, latest, ready, over: BTreeSet::new() };
        let over = wanted.keys().filter(|uid| !before.lives(uid) || quiet.has_ended(uid));
        quiet.over = over.cloned().collect();
        quiet
    }

    fn read(&mut self, event: &Event) -> Option<String> {
        match event {
            Event::StopAsked(id, _) => self.stops(id),
            Event::StopSandboxAsked(id) => self.stops_sandbox(id),
            Event::MakeAsked(maker) => self.makes(maker),
            // One that is removed had ended.
            Event::Container(one, was) if one.state.is_some() => {
                let key = (one.uid.clone(), Arc::clone(&one.name));
                let has_turn = was.is_some() || self.has_its_turn(&key);
                self.latest.insert(key, (**one).clone());
                (!has_turn).then(|| format!("it makes {} beside one that did not end", one.id))
            }
            Event::Sandbox(id, uid, state) => {
                if *state == SandboxState::Ready {
                    self.ready.insert(id.clone(), uid.clone());
                } else {
                    self.ready.remove(id);
                }
                None
            }
            Event::ResizeAsked(id) => Some(format!("it resizes {id}")),
            Event::SandboxResizeAsked(id) => Some(format!("it resizes {id}")),
            Event::PullAsked(pull) => self.pulls(pull),
            Event::CgroupWritten(write) => self.writes(write),
            _ => None,
        }
    }

    fn stops(&self, id: &ContainerId) -> Option<String> {
        let owner = self.latest.values().find(|one| one.id == *id).map(|one| &one.uid);
        // Of a pod that has ended sidecars may be left.
        let may = owner.is_some_and(|uid| {
            self.has_deadline(uid) || self.is_restless(uid) || self.has_ended(uid)
        });
        (!may).then(|| format!("it stops {id}"))
    }

    /// One that is not ready may be stopped again by who does not know that it was.
    fn stops_sandbox(&self, id: &SandboxId) -> Option<String> {
        let uid = self.ready.get(id)?;
        (!self.may_end(uid)).then(|| format!("it stops {id} of {uid}"))
    }

    fn makes(&self, maker: &Maker) -> Option<String> {
        let Maker { uid, name, .. } = maker;
        match name {
            None if self.has_time_again(uid) => None,
            None => Some(format!("it makes a sandbox for {uid}")),
            Some(name) if self.has_its_turn(&(uid.clone(), Arc::clone(name))) => None,
            Some(name) => Some(format!("it makes {name} of {uid}, which did not end")),
        }
    }

    /// An image that went is fetched again for a container that is started again.
    fn pulls(&self, pull: &ImagePull) -> Option<String> {
        let ImagePull { image, is_there } = pull;
        let may_start = |(uid, pod): (&PodUid, &Arc<PodPlan>)| {
            let mut users = pod.all().filter(|container| container.image == image);
            users.any(|container| self.has_its_turn(&(uid.clone(), container.name.into())))
        };
        let may = !is_there && self.wanted.iter().any(may_start);
        (!may).then(|| format!("it fetches {image}, which nobody waits for"))
    }

    /// The cgroup of a pod is left alone unless the pod comes or goes, and what the node's own have only
    /// changes with a pod that asks for some of it.
    fn writes(&self, write: &CgroupWrite) -> Option<String> {
        let CgroupWrite { call, pod, changes } = write;
        let moves = |uid: &PodUid| self.may_end(uid) || self.has_time_again(uid);
        let asks = |(uid, pod): &(&PodUid, &Arc<PodPlan>)| {
            pod.milli() > 0 && !self.over.contains(*uid) && moves(uid)
        };
        let may = match pod {
            Some(uid) => moves(uid),
            None => !changes || self.wanted.iter().any(|pod| asks(&pod)),
        };
        (!may).then(|| format!("it does {call}"))
    }

    /// Whether a container may be started: with its time a pod gets back its turn, also for what had not
    /// run when its time was up.
    fn has_its_turn(&self, key: &(PodUid, Arc<str>)) -> bool {
        let ended = |one: &Instance| one.state == Some(ContainerState::Exited);
        self.has_time_again(&key.0)
            || self.is_restless(&key.0)
            || self.latest.get(key).is_some_and(ended)
    }

    fn has_deadline(&self, uid: &PodUid) -> bool {
        self.wanted.get(uid).is_some_and(|pod| pod.deadline.is_some())
    }

    /// Some pods are never at rest, whoever looks after them.
    fn is_restless(&self, uid: &PodUid) -> bool {
        let starts_over = |pod: &Arc<PodPlan>| {
            pod.restarts_all() || pod.all().any(ContainerPlan::may_not_come_up)
        };
        self.wanted.get(uid).is_some_and(starts_over)
    }

    /// Whether the time of a pod was up, before somebody set the clock back.
    fn has_time_again(&self, uid: &PodUid) -> bool {
        if self.before.robbed.contains(uid) {
            return true;
        }
        let deadline = self.wanted.get(uid).and_then(|pod| pod.deadline).map(Duration::from_secs);
        let age = self.before.sandboxes_of(uid).map(|sandbox| sandbox.age).max();
        let age = age.map(|age| Duration::try_from(age).unwrap_or_default());
        deadline.zip(age).is_some_and(|(deadline, age)| age < deadline)
    }

    /// Whether a pod may be ended.
    fn may_end(&self, uid: &PodUid) -> bool {
        self.has_deadline(uid) || self.before.robbed.contains(uid) || self.has_ended(uid)
    }

    /// Whether nothing of a pod will run again.
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
            code.is_some_and(|code| !pod.policy.restarts(code))
        };
        pod.containers.iter().all(for_good) || pod.init.iter().any(failed)
    }
}

#[cfg(test)]
#[path = "disturbed_tests.rs"]
mod tests;
