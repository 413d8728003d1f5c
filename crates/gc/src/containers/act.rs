//! Carrying decisions out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use futures_util::{StreamExt as _, stream};
use model::chain::Chain;
use model::ids::{ContainerId, PodUid, SandboxId};
use model::observed::{Container, ContainerState};
use model::ports::runtime::RuntimeError;
use model::verdict::{Subject, Verdict};
use tracing::{info, warn};

use super::survey::Survey;
use super::{ContainerGcParts, Report, Step};
use crate::plan::{Fate, Item};

/// How many containers are removed at a time, and then how many sandboxes.
const REMOVALS_AT_A_TIME: usize = 4;

/// Whom each step is told to.
pub(super) type Tell<'a> = &'a (dyn Fn(Step) + Sync);

/// Carries out what was decided: containers, then sandboxes, then logs, then links. What cannot be
/// removed keeps nothing else, except the sandbox that it is in.
pub(super) async fn carry_out(parts: &ContainerGcParts, survey: &Survey, tell: Tell<'_>) -> Report {
    let mut report = Report::default();
    let act = Act { parts, tell };
    let occupied = act.containers(survey, &mut report).await;
    act.sandboxes(survey, &occupied, &mut report).await;
    for item in survey.logs.iter().chain(&survey.links) {
        if let Some(verdict) = act.verdict(item) {
            let outcome = act.file(&verdict).await;
            act.done(verdict, outcome, &mut report);
        }
    }
    report
}

/// Removes an instance on its own, with its log.
pub(super) async fn remove_one(parts: &ContainerGcParts, container: &Container, verdict: &Verdict) {
    let act = Act { parts, tell: &|_| {} };
    let mut report = Report::default();
    let outcome = act.container(container, verdict, false).await;
    act.done(verdict.clone(), outcome, &mut report);
}

struct Act<'a> {
    parts: &'a ContainerGcParts,
    tell: Tell<'a>,
}

impl Act<'_> {
    fn verdict(&self, item: &Item) -> Option<Verdict> {
        item.verdict(self.parts.clock.now())
    }

    fn done(&self, verdict: Verdict, outcome: Result<(), String>, report: &mut Report) {
        match &outcome {
            Ok(()) => report.removed += 1,
            Err(error) => {
                report.failed += 1;
                warn!(%verdict, %error, "cannot remove");
            }
        }
        (self.tell)(Step { verdict, outcome });
    }

    /// Removes containers; answers in which sandboxes some are left that should be gone.
    async fn containers<'s>(
        &self,
        survey: &'s Survey,
        report: &mut Report,
    ) -> BTreeSet<&'s SandboxId> {
        let listed: BTreeMap<&ContainerId, &Container> =
            survey.listed.iter().map(|container| (&container.id, container)).collect();
        let logs_go = survey.pods_without_logs();
        let removals = survey.containers.iter().filter(|item| item.fate == Fate::Remove);
        let doomed = removals.filter_map(|item| match &item.subject {
            Subject::Container(id) => Some((item, *listed.get(id)?)),
            _ => None,
        });
        let (act, logs_go) = (self, &logs_go);
        let removed = stream::iter(doomed).map(|(item, container)| async move {
            let verdict = act.verdict(item)?;
            let log_goes = logs_go.contains(&container.pod_uid);
            let outcome = act.container(container, &verdict, log_goes).await;
            Some((container, verdict, outcome))
        });
        let mut removed = std::pin::pin!(removed.buffer_unordered(REMOVALS_AT_A_TIME));
        let mut occupied = BTreeSet::new();
        while let Some(ended) = removed.next().await {
            let Some((container, verdict, outcome)) = ended else { continue };
            if outcome.is_err() {
                occupied.insert(&container.sandbox_id);
            }
            self.done(verdict, outcome, report);
        }
        occupied
    }

    /// Removes a container with its log and the link to that. With `log_goes`, all logs of its pod go
    /// in this pass, and in the next one if that fails.
    async fn container(
        &self,
        container: &Container,
        verdict: &Verdict,
        log_goes: bool,
    ) -> Result<(), String> {
        let mut log = None;
        if !(log_goes && container.state == ContainerState::Exited) {
            match self.parts.runtime.container_status(&container.id).await {
                Ok(status) if status.state == ContainerState::Running => {
                    return Err("it runs by now".to_owned());
                }
                Ok(status) => {
                    if container.state == ContainerState::Unknown {
                        self.parts.stop.stop(container, &status).await?;
                    }
                    log = Some(status.log_path).filter(|path| !log_goes && !path.is_empty());
                }
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        let named = (&*container.name, &container.id);
        let log = log.as_deref().map(Path::new);
        for subject in self.parts.logs.remains(&container.pod, named, log) {
            let verdict = Verdict { subject, ..verdict.clone() };
            match verdict.subject {
                Subject::Container(_) => {
                    info!(%verdict, "removing");
                    unless_gone(self.parts.runtime.remove_container(&verdict).await)?;
                }
                _ => self.file(&verdict).await?,
            }
        }
        Ok(())
    }

    async fn sandboxes(
        &self,
        survey: &Survey,
        occupied: &BTreeSet<&SandboxId>,
        report: &mut Report,
    ) {
        let removals = survey.sandboxes.iter().filter(|item| item.fate == Fate::Remove);
        let doomed = removals.filter_map(|item| match &item.subject {
            Subject::Sandbox(id) if !occupied.contains(id) => Some((item, id)),
            _ => None,
        });
        let removed = stream::iter(doomed).map(|(item, id)| async move {
            let verdict = self.verdict(item)?;
            let outcome = self.sandbox(id, &verdict).await;
            Some((verdict, outcome))
        });
        let mut removed = std::pin::pin!(removed.buffer_unordered(REMOVALS_AT_A_TIME));
        while let Some(ended) = removed.next().await {
            if let Some((verdict, outcome)) = ended {
                self.done(verdict, outcome, report);
            }
        }
    }

    /// It should have been stopped before; to be sure, it is stopped again.
    async fn sandbox(&self, id: &SandboxId, verdict: &Verdict) -> Result<(), String> {
        info!(%verdict, "removing");
        unless_gone(self.parts.runtime.stop_pod_sandbox(id).await)?;
        unless_gone(self.parts.runtime.remove_pod_sandbox(verdict).await)
    }

    async fn file(&self, verdict: &Verdict) -> Result<(), String> {
        let logs = &self.parts.logs;
        let root = match (&verdict.subject, &verdict.owner) {
            (Subject::LogLink(_), _) => &logs.container_links,
            // A pod of the same uid may have come since.
            (Subject::PodLogs(_), Some(owner)) if !self.logs_may_go(&owner.uid) => {
                return Err("its pod is there again".to_owned());
            }
            _ => &logs.pod_logs,
        };
        let removed = self.parts.files.remove(root, verdict).await;
        removed.map_err(|error| Chain(&error).to_string())
    }

    fn logs_may_go(&self, uid: &PodUid) -> bool {
        self.parts.pods.sources_ready() && self.parts.pods.state(uid).logs_removable().is_some()
    }
}

/// What is gone need not be removed.
fn unless_gone(result: Result<(), RuntimeError>) -> Result<(), String> {
    match result {
        Err(error) if !error.is_not_found() => Err(error.to_string()),
        _ => Ok(()),
    }
}
