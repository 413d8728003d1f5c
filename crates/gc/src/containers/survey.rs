//! Lists what exists, and decides what to remove.

mod directories;
mod guarded;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use jiff::Timestamp;
use model::ids::{ContainerId, PodUid, SandboxId};
use model::lists;
use model::log_layout::LogLayout;
use model::observed::{Container, ContainerState, Sandbox, SandboxState};
use model::panics::{PanicGuard, PanicStep, PanicSubject};
use model::ports::runtime::{ContainerFilter, RuntimeError, SandboxFilter};
use model::verdict::Subject;

use self::directories::logs_and_links;
pub(super) use self::directories::{Versions, files, versions};
use self::guarded::{containers_of, sandboxes_of};
use super::{ContainerGcParts, PassError, Planned};
use crate::decide::Facts;
use crate::decide::containers::{ExitTimes, NOT_DECIDED, reading_order};
use crate::decide::logs::logs;
use crate::plan::{Fate, Item, Plan};
use crate::policy::{AgeBy, ContainerPolicy};

/// Up to this number, pods are listed one by one; for more, one full list is cheaper.
pub(super) const PODS_ALONE: usize = 16;

/// How many containers are inspected concurrently.
const LOOKS_AT_A_TIME: usize = 4;

/// Listed objects and decisions. Decisions about containers are computed on demand: storing them for many
/// containers would take more memory than the containers.
#[derive(Debug)]
pub(super) struct Survey {
    /// The listed containers, by pod.
    pub(super) listed: Vec<Container>,
    /// Whether any container may be removed.
    decides_containers: bool,
    /// Exit times, if the policy uses them.
    ended: ExitTimes,
    aggressive: bool,
    now: Timestamp,
    /// Whether a later pass may remove more without a further change.
    pub(super) something_is_too_young: bool,
    /// When the first container reaches the minimum age.
    pub(super) ripens: Option<Timestamp>,
    /// Pods with live objects; `None` if the runtime list is incomplete.
    alive: Option<BTreeSet<PodUid>>,
    pub(super) sandboxes: Vec<Item>,
    pub(super) logs: Vec<Item>,
    pub(super) links: Vec<Item>,
    pub(super) problems: Vec<PassError>,
}

impl Survey {
    fn new(parts: &ContainerGcParts, aggressive: bool) -> Self {
        Self {
            listed: Vec::new(),
            decides_containers: true,
            ended: ExitTimes::new(),
            aggressive,
            now: parts.clock.now(),
            something_is_too_young: false,
            ripens: None,
            alive: None,
            sandboxes: Vec::new(),
            logs: Vec::new(),
            links: Vec::new(),
            problems: Vec::new(),
        }
    }

    fn facts<'a>(&self, parts: &'a ContainerGcParts) -> Facts<'a> {
        self.facts_by(parts, &parts.policy)
    }

    fn facts_by<'a>(&self, parts: &'a ContainerGcParts, policy: &'a ContainerPolicy) -> Facts<'a> {
        let Self { aggressive, now, .. } = *self;
        Facts { pods: &*parts.pods, policy, aggressive, now }
    }

    /// The fate of each container, by pod, computed on demand. With a cap of the node, one decision covers all.
    pub(super) fn containers<'s>(
        &'s self,
        parts: &ContainerGcParts,
    ) -> impl Iterator<Item = (Item, &'s Container)> {
        self.decided(self.facts(parts), &parts.panics)
    }

    fn decided<'s>(
        &'s self,
        facts: Facts<'_>,
        guard: &PanicGuard,
    ) -> impl Iterator<Item = (Item, &'s Container)> {
        let listed = if self.decides_containers { &self.listed[..] } else { &[] };
        let together = facts.policy.in_all.is_some();
        let pods = listed.chunk_by(move |one, next| together || one.pod_uid == next.pod_uid);
        pods.flat_map(move |listed| {
            let by_id: BTreeMap<&ContainerId, &Container> =
                listed.iter().map(|container| (&container.id, container)).collect();
            let items = containers_of(listed, &self.ended, &facts, guard);
            items.into_iter().filter_map(move |item| match &item.subject {
                Subject::Container(id) => by_id.get(id).map(|container| (item, *container)),
                _ => None,
            })
        })
    }

    /// The plan, in the order of its execution; containers to remove come first, then kept ones in reading
    /// order.
    pub(super) fn planned(self, parts: &ContainerGcParts) -> Planned {
        let (going, mut kept): (Vec<_>, Vec<_>) =
            self.containers(parts).partition(|(item, _)| item.fate == Fate::Remove);
        kept.sort_by(|(_, one), (_, other)| reading_order(one, other));
        let mut items: Vec<Item> = going.into_iter().chain(kept).map(|(item, _)| item).collect();
        items.extend([self.sandboxes, self.logs, self.links].into_iter().flatten());
        Planned { plan: Plan { items }, problems: self.problems }
    }

    /// The pods whose log directories are removed.
    pub(super) fn pods_without_logs(&self) -> BTreeSet<PodUid> {
        let gone = self.logs.iter().filter(|item| item.fate == Fate::Remove);
        gone.filter_map(|item| Some(item.owner.as_ref()?.uid.clone())).collect()
    }

    /// Adds the containers; returns the sandboxes that keep some.
    fn take(
        &mut self,
        parts: &ContainerGcParts,
        mut listed: Vec<Container>,
    ) -> BTreeSet<SandboxId> {
        listed.sort_by(|one, other| one.pod_uid.cmp(&other.pod_uid));
        self.listed = listed;
        if !self.decides_containers {
            return self.listed.iter().map(|container| container.sandbox_id.clone()).collect();
        }
        let (mut in_use, mut too_young) = (BTreeSet::new(), false);
        for (item, container) in self.containers(parts).filter(|(item, _)| item.fate == Fate::Keep)
        {
            too_young |= matches!(item.rule, "too-young" | "exit-time-unknown" | NOT_DECIDED);
            if !in_use.contains(&container.sandbox_id) {
                in_use.insert(container.sandbox_id.clone());
            }
        }
        self.something_is_too_young = too_young;
        self.ripens = if too_young { self.ripens(parts) } else { None };
        in_use
    }

    /// When the first container reaches the minimum age that would be removed otherwise.
    fn ripens(&self, parts: &ContainerGcParts) -> Option<Timestamp> {
        let policy = ContainerPolicy { min_age: Duration::ZERO, ..parts.policy };
        let going = self.decided(self.facts_by(parts, &policy), &parts.panics);
        let going = going.filter(|(item, _)| item.fate == Fate::Remove);
        let since =
            going.map(|(_, one)| self.ended.get(&one.id).copied().unwrap_or(one.created_at));
        let old_enough = since.filter_map(|since| since.checked_add(parts.policy.min_age).ok());
        old_enough.filter(|at| *at > self.now).min()
    }
}

/// Surveys everything.
pub(super) async fn all(
    parts: &ContainerGcParts,
    aggressive: bool,
    ended: &mut ExitTimes,
) -> Survey {
    let mut survey = Survey::new(parts, aggressive);
    of_runtime(parts, None, ended, &mut survey).await;
    logs_and_links(parts, &mut survey).await;
    survey
}

/// Surveys one pod.
pub(super) async fn pod(parts: &ContainerGcParts, uid: &PodUid) -> Survey {
    let mut survey = Survey::new(parts, false);
    let pod = of_runtime(parts, Some(uid), &mut <_>::default(), &mut survey).await;
    let name = if let Some(pod) = &pod {
        Some(LogLayout::pod_directory_name(pod, uid))
    } else {
        // The runtime has no object of it, so its name is read from its log directory.
        let names = parts.files.list(&parts.logs.pod_logs).await.unwrap_or_default();
        names.into_iter().find(|name| LogLayout::pod_of_directory(name) == *uid)
    };
    if let (Some(name), Some(alive)) = (name, &survey.alive)
        && parts.files.look(&parts.logs.pod_logs.join(&name)).await.is_ok()
    {
        survey.logs = logs(&parts.logs.pod_logs, &[(name, true)], alive, &*parts.pods);
    }
    survey
}

/// Surveys the runtime for all pods or one; returns the name of one.
async fn of_runtime(
    parts: &ContainerGcParts,
    pod: Option<&PodUid>,
    ended: &mut ExitTimes,
    survey: &mut Survey,
) -> Option<model::ids::PodName> {
    let runtime = &parts.runtime;
    // Sandboxes first: a sandbox that is not ready gets no new containers, so the following list has all its
    // containers.
    let (sandbox_filter, filter) = filters(pod);
    let listed = lists::sandboxes(runtime, &sandbox_filter).await;
    let (found, trouble) = match listed {
        Ok(found) => (found, None),
        Err(error) => (Vec::new(), Some(PassError::List("sandboxes", error))),
    };
    let mut listed = lists::containers(runtime, &filter).await;
    if let Err(error) = listed {
        // Containers stay in this pass; the sandboxes are surveyed with one more attempt.
        survey.problems.push(PassError::List("containers", error));
        survey.decides_containers = false;
        listed = lists::containers(runtime, &filter).await;
    }
    let mut name = found.first().map(|sandbox| sandbox.pod.clone());
    match listed {
        Ok(listed) => {
            if survey.decides_containers {
                learn_exit_times(parts, &listed, ended).await;
                survey.ended.clone_from(ended);
            }
            name = name.or_else(|| listed.first().map(|container| container.pod.clone()));
            survey.alive = trouble.is_none().then(|| alive(&found, &listed));
            survey.now = parts.clock.now();
            let in_use = survey.take(parts, listed);
            survey.sandboxes = sandboxes_of(found, &in_use, &survey.facts(parts), &parts.panics);
        }
        Err(error) => survey.problems.push(PassError::List("containers", error)),
    }
    survey.problems.extend(trouble);
    name
}

/// Filters for all pods or one.
fn filters(pod: Option<&PodUid>) -> (SandboxFilter, ContainerFilter) {
    let sandboxes = SandboxFilter { pod_uid: pod.cloned(), ..SandboxFilter::default() };
    (sandboxes, ContainerFilter { pod_uid: pod.cloned(), ..ContainerFilter::default() })
}

/// The given pods that may have live objects. For many pods, one full list is cheaper.
async fn alive_of(
    parts: &ContainerGcParts,
    pods: &BTreeSet<PodUid>,
) -> Result<BTreeSet<PodUid>, PassError> {
    let runtime = &parts.runtime;
    let one_by_one = pods.iter().map(Some).filter(|_| pods.len() <= PODS_ALONE);
    let all_at_once = (pods.len() > PODS_ALONE).then_some(None);
    let mut found = BTreeSet::new();
    for pod in one_by_one.chain(all_at_once) {
        let failed = |what| move |error: RuntimeError| PassError::List(what, error);
        let (sandbox_filter, filter) = filters(pod);
        let sandboxes = lists::sandboxes(runtime, &sandbox_filter).await;
        let sandboxes = sandboxes.map_err(failed("sandboxes"))?;
        let containers = lists::containers(runtime, &filter).await;
        found.append(&mut alive(&sandboxes, &containers.map_err(failed("containers"))?));
    }
    Ok(found)
}

/// The pods with live objects.
fn alive(sandboxes: &[Sandbox], containers: &[Container]) -> BTreeSet<PodUid> {
    let ready = sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready);
    let running = containers.iter().filter(|container| container.state == ContainerState::Running);
    let uids = ready.map(|sandbox| &sandbox.pod_uid).chain(running.map(|one| &one.pod_uid));
    uids.cloned().collect()
}

/// Reads exit times, if the policy uses them. They never change, so each is read once.
async fn learn_exit_times(parts: &ContainerGcParts, listed: &[Container], ended: &mut ExitTimes) {
    if parts.policy.age_by != AgeBy::Finished {
        return;
    }
    let there: BTreeSet<&ContainerId> = listed.iter().map(|container| &container.id).collect();
    ended.retain(|id, _| there.contains(id));
    let exited = listed.iter().filter(|container| container.state == ContainerState::Exited);
    let unknown: Vec<ContainerId> =
        exited.map(|one| one.id.clone()).filter(|id| !ended.contains_key(id)).collect();
    let (mut waiting, mut under_way) = (unknown.into_iter(), FuturesUnordered::new());
    loop {
        while under_way.len() < LOOKS_AT_A_TIME
            && let Some(id) = waiting.next()
        {
            under_way.push(exit_time(parts, id));
        }
        match under_way.next().await {
            Some(found) => ended.extend(found),
            None => return,
        }
    }
}

/// The exit time of a container; `None` without an answer. If the runtime does not report it, the creation time
/// counts.
async fn exit_time(parts: &ContainerGcParts, id: ContainerId) -> Option<(ContainerId, Timestamp)> {
    let (of, status) =
        (PanicSubject::Object(id.as_str()), parts.runtime.containers.container_status(&id));
    let status = parts.panics.catch_async(PanicStep::ContainerGc, of, status).await.ok()?.ok()?;
    Some((id, status.finished_at.unwrap_or(status.created_at)))
}
