//! Looking at what there is, and deciding what becomes of it.

use std::collections::BTreeSet;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use jiff::Timestamp;
use model::ids::{ContainerId, PodUid, SandboxId};
use model::log_layout::LogLayout;
use model::observed::{Container, ContainerState, Sandbox, SandboxState};
use model::ports::files::{Entry, FileError, FileKind};
use model::ports::runtime::Code;
use model::verdict::Subject;

use super::{ContainerGcParts, PassError, Planned, lists};
use crate::decide::Facts;
use crate::decide::containers::{ExitTimes, containers};
use crate::decide::links::{Found, dangling};
use crate::decide::logs::logs;
use crate::decide::sandboxes::sandboxes;
use crate::plan::{Fate, Item, Plan};
use crate::policy::AgeBy;

/// How many containers are looked at closely at a time.
const LOOKS_AT_A_TIME: usize = 4;

/// What was found and decided.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// What the runtime listed.
    pub(super) listed: Vec<Container>,
    /// Pods of which something lives.
    alive: BTreeSet<PodUid>,
    pub(super) containers: Vec<Item>,
    pub(super) sandboxes: Vec<Item>,
    pub(super) logs: Vec<Item>,
    pub(super) links: Vec<Item>,
    pub(super) problems: Vec<PassError>,
}

impl Survey {
    /// All of it as a plan, in the order in which it is carried out.
    pub(super) fn planned(self) -> Planned {
        let parts = [self.containers, self.sandboxes, self.logs, self.links];
        Planned { plan: Plan { items: parts.concat() }, problems: self.problems }
    }

    /// The pods whose logs go as a whole.
    pub(super) fn pods_without_logs(&self) -> BTreeSet<PodUid> {
        let gone = self.logs.iter().filter(|item| item.fate == Fate::Remove);
        gone.filter_map(|item| Some(item.owner.as_ref()?.uid.clone())).collect()
    }

    /// Whether time alone may make something go.
    pub(super) fn something_is_too_young(&self) -> bool {
        self.containers.iter().any(|item| item.rule == "too-young")
    }
}

/// Looks at everything.
pub(super) async fn all(
    parts: &ContainerGcParts,
    aggressive: bool,
    ended: &mut ExitTimes,
) -> Survey {
    let mut survey = Survey::default();
    of_runtime(parts, aggressive, (None, ended), &mut survey).await;
    of_files(parts, &mut survey).await;
    survey
}

/// Looks at logs and links alone.
pub(super) async fn files(parts: &ContainerGcParts) -> Survey {
    let mut survey = Survey::default();
    of_files(parts, &mut survey).await;
    survey
}

async fn of_files(parts: &ContainerGcParts, survey: &mut Survey) {
    // Before all are heard nothing would go; that there is no directory yet is no problem then.
    match parts.files.entries(&parts.logs.pod_logs).await {
        Ok(entries) => {
            let entries: Vec<(String, bool)> = entries.into_iter().filter_map(named).collect();
            survey.logs = logs(&parts.logs.pod_logs, &entries, &survey.alive, &*parts.pods);
        }
        Err(error) if parts.pods.sources_ready() => {
            survey.problems.push(PassError::ReadLogs(error));
        }
        Err(_) => {}
    }
    survey.links = dangling_links(parts).await;
}

/// Looks at what is left of one pod.
pub(super) async fn pod(parts: &ContainerGcParts, uid: &PodUid) -> Survey {
    let mut survey = Survey::default();
    let pod = of_runtime(parts, false, (Some(uid), &mut <_>::default()), &mut survey).await;
    let name = if let Some(pod) = &pod {
        Some(LogLayout::pod_directory_name(pod, uid))
    } else {
        // The runtime has nothing of it, so only its logs can tell how it was called.
        let names = parts.files.list(&parts.logs.pod_logs).await.unwrap_or_default();
        names.into_iter().find(|name| LogLayout::pod_of_directory(name) == *uid)
    };
    if let Some(name) = name
        && parts.files.look(&parts.logs.pod_logs.join(&name)).await.is_ok()
    {
        survey.logs = logs(&parts.logs.pod_logs, &[(name, true)], &survey.alive, &*parts.pods);
    }
    survey
}

/// The name of an entry, and whether it is a directory. Nobody gives pods names that are no text.
fn named(entry: Entry) -> Option<(String, bool)> {
    let is_directory = entry.found.is_ok_and(|found| found.kind == FileKind::Directory);
    Some((entry.name.into_string().ok()?, is_directory))
}

/// Looks at what the runtime has, of all pods or of one; tells the name of one.
async fn of_runtime(
    parts: &ContainerGcParts,
    aggressive: bool,
    (pod, ended): (Option<&PodUid>, &mut ExitTimes),
    survey: &mut Survey,
) -> Option<model::ids::PodName> {
    let runtime = &*parts.runtime;
    // Sandboxes first: one that is not ready gets no new containers, so all that are in it are in the
    // list that follows.
    let listed = lists::sandboxes(runtime, pod).await;
    let (found, trouble) = match listed {
        Ok(found) => (found, None),
        Err(error) => (Vec::new(), Some(PassError::List("sandboxes", error))),
    };
    let facts =
        Facts { pods: &*parts.pods, policy: &parts.policy, aggressive, now: parts.clock.now() };
    let mut decides_containers = true;
    let mut listed = lists::containers(runtime, pod, &found).await;
    if let Err(error) = listed {
        // Containers stay in this pass; for the sandboxes it is tried once more.
        survey.problems.push(PassError::List("containers", error));
        decides_containers = false;
        listed = lists::containers(runtime, pod, &found).await;
    }
    match listed {
        Ok(listed) => {
            if decides_containers {
                learn_exit_times(parts, &listed, ended).await;
                survey.containers = containers(&listed, ended, &facts);
            }
            survey.alive = alive(&found, &listed);
            survey.sandboxes = sandboxes(&found, &in_use(&listed, &survey.containers), &facts);
            survey.listed = listed;
        }
        Err(error) => survey.problems.push(PassError::List("containers", error)),
    }
    survey.problems.extend(trouble);
    name_of(&found, &survey.listed)
}

/// The pods of which something may live.
fn alive(sandboxes: &[Sandbox], containers: &[Container]) -> BTreeSet<PodUid> {
    let ready = sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready);
    let running = containers.iter().filter(|container| container.state == ContainerState::Running);
    let uids = ready.map(|sandbox| &sandbox.pod_uid).chain(running.map(|one| &one.pod_uid));
    uids.cloned().collect()
}

fn name_of(sandboxes: &[Sandbox], containers: &[Container]) -> Option<model::ids::PodName> {
    let of_sandbox = sandboxes.first().map(|sandbox| sandbox.pod.clone());
    of_sandbox.or_else(|| containers.first().map(|container| container.pod.clone()))
}

/// The sandboxes in which a container is that stays.
fn in_use<'a>(listed: &'a [Container], decided: &[Item]) -> BTreeSet<&'a SandboxId> {
    let removed: BTreeSet<&Subject> =
        decided.iter().filter(|item| item.fate == Fate::Remove).map(|item| &item.subject).collect();
    let stays = |one: &&Container| !removed.contains(&Subject::Container(one.id.clone()));
    listed.iter().filter(stays).map(|container| &container.sandbox_id).collect()
}

/// Learns when containers ended, if that counts. It never changes, so each is asked once.
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

/// When a container ended; without an answer its creation counts until the next pass.
async fn exit_time(parts: &ContainerGcParts, id: ContainerId) -> Option<(ContainerId, Timestamp)> {
    let status = parts.runtime.container_status(&id).await.ok()?;
    Some((id, status.finished_at?))
}

/// What becomes of links that lead nowhere; others are nobody's business.
async fn dangling_links(parts: &ContainerGcParts) -> Vec<Item> {
    let root = &parts.logs.container_links;
    let Ok(entries) = parts.files.entries(root).await else { return Vec::new() };
    let mut items = Vec::new();
    for entry in entries {
        let leads_nowhere = entry.found.as_ref().is_err_and(FileError::is_not_found);
        let Some(name) = entry.name.to_str().filter(|name| LogLayout::is_link_name(name)) else {
            continue;
        };
        if leads_nowhere {
            items.push(dangling(root, name, container_of(parts, name).await));
        }
    }
    items
}

async fn container_of(parts: &ContainerGcParts, link: &str) -> Found {
    let Some(id) = LogLayout::container_of_link(link) else { return Found::NoId };
    match parts.runtime.container_status(&id).await {
        Ok(status) => Found::State(status.state),
        Err(error) if error.code == Code::DataLoss => Found::Nothing,
        Err(_) => Found::Failed,
    }
}
