//! Carries out decisions.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use model::chain::Chain;
use model::ids::{PodUid, SandboxId};
use model::observed::{Container, ContainerState, ContainerStatus};
use model::panics::{PanicStep, PanicSubject};
use model::ports::runtime::RuntimeError;
use model::verdict::{Subject, Verdict};
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};

use super::survey::Survey;
use super::{ContainerGcParts, KeepReason, PassError, Report, Step};
use crate::decide::still_goes;
use crate::plan::Item;

/// The number of concurrent removals, of containers and then of sandboxes.
const REMOVALS_AT_A_TIME: usize = 4;

/// After this number of consecutive removals that could not reach the runtime, the next pass does the
/// rest.
const AWAY: usize = 5;

/// How long a pass waits for all stops of containers in an unknown state together.
const LONGEST_STOPS: Duration = Duration::from_mins(1);

/// Receives each step.
pub(super) type StepSink<'a> = &'a (dyn Fn(Step) + Sync);

/// Carries out decisions: containers, then sandboxes, then logs, then links. A failed removal blocks no other,
/// except that of its sandbox. The report includes listing problems.
pub(super) async fn carry_out(
    parts: &ContainerGcParts,
    survey: &mut Survey,
    report_step: StepSink<'_>,
) -> Report {
    let mut report = Report::default();
    let act = Act::new(parts, report_step);
    let mut away = UnavailableStreak::default();
    let occupied = act.containers(survey, &mut away, &mut report).await;
    act.sandboxes(survey, &occupied, &mut away, &mut report).await;
    report.problems.extend(away.problem());
    for item in survey.logs.iter().chain(&survey.links) {
        if let Some(verdict) = act.verdict(item) {
            let outcome = act.guarded(&verdict, act.logs(&verdict)).await;
            act.done(verdict, outcome, &mut report);
        }
    }
    report.problems.append(&mut survey.problems);
    parts.removals.pass_is_over();
    report
}

/// Removes a single instance with its log.
pub(super) async fn remove_one(parts: &ContainerGcParts, container: &Container, verdict: &Verdict) {
    let Some(removal) = parts.removals.begin(&container.id).await else { return };
    let act = Act::new(parts, &|_| {});
    let mut report = Report::default();
    let outcome = act.guarded(verdict, act.container(container, verdict, false)).await;
    if outcome.is_ok() {
        removal.mark_removed();
    }
    act.done(verdict.clone(), outcome, &mut report);
}

/// A pod with the same uid was created since, and needs the remaining objects.
const POD_CAME_BACK: KeepReason = KeepReason::Kept("pod-came-back");

/// The container was started since it was listed.
const RUNS: KeepReason = KeepReason::Kept("running");

/// Detects an unavailable runtime from failed removals.
#[derive(Debug, Default)]
struct UnavailableStreak {
    in_a_row: usize,
    /// The last error.
    error: String,
}

impl UnavailableStreak {
    fn saw(&mut self, outcome: &Result<(), KeepReason>) {
        match outcome {
            _ if self.is_certain() => {}
            Err(KeepReason::RuntimeAway(error)) => {
                self.in_a_row += 1;
                self.error.clone_from(error);
            }
            _ => self.in_a_row = 0,
        }
    }

    fn is_certain(&self) -> bool {
        self.in_a_row >= AWAY
    }

    fn problem(self) -> Option<PassError> {
        self.is_certain().then_some(PassError::RuntimeAway(self.error))
    }
}

struct Act<'a> {
    parts: &'a ContainerGcParts,
    report_step: StepSink<'a>,
    /// The deadline for waiting on stops.
    stops_until: Instant,
}

impl<'a> Act<'a> {
    fn new(parts: &'a ContainerGcParts, report_step: StepSink<'a>) -> Self {
        Self { parts, report_step, stops_until: Instant::now() + LONGEST_STOPS }
    }

    /// Stops a container in an unknown state. If that takes too long, a later pass removes it.
    async fn stop(
        &self,
        container: &Container,
        status: &ContainerStatus,
    ) -> Result<(), KeepReason> {
        let stopped = timeout_at(self.stops_until, self.parts.stop.stop(container, status)).await;
        let stopped = stopped.unwrap_or_else(|_| Err("it is still being stopped".to_owned()));
        stopped.map_err(KeepReason::Failed)
    }
}

impl Act<'_> {
    fn verdict(&self, item: &Item) -> Option<Verdict> {
        item.verdict(self.parts.clock.now())
    }

    /// Whether a verdict still holds: earlier removals may have taken long.
    fn stands(&self, verdict: &Verdict) -> Result<(), KeepReason> {
        let owner = verdict.owner.as_ref();
        match owner.map(|owner| self.parts.pods.state(&owner.uid)) {
            Some(state) if !still_goes(verdict.rule, state) => Err(POD_CAME_BACK),
            _ => Ok(()),
        }
    }

    /// Removes an object. After a panic the object stays until the next pass.
    async fn guarded(
        &self,
        verdict: &Verdict,
        removal: impl Future<Output = Result<(), KeepReason>>,
    ) -> Result<(), KeepReason> {
        let subject = verdict.subject.to_string();
        let of = match &verdict.owner {
            Some(owner) => PanicSubject::Pod(&owner.uid, owner.pod.as_ref()),
            None => PanicSubject::Object(&subject),
        };
        let done = self.parts.panics.catch_async(PanicStep::ContainerGc, of, removal).await;
        done.unwrap_or_else(|panic| Err(KeepReason::Failed(panic.to_string())))
    }

    fn done(&self, verdict: Verdict, outcome: Result<(), KeepReason>, report: &mut Report) {
        match &outcome {
            Ok(()) => {}
            Err(KeepReason::Kept(rule)) => {
                info!(%verdict, rule, "Kept by a rule since the decision");
            }
            Err(KeepReason::Failed(error) | KeepReason::RuntimeAway(error)) => {
                warn!(%verdict, %error, "Removal failed");
            }
        }
        let step = Step { verdict, outcome };
        report.count(&step);
        (self.report_step)(step);
    }

    /// Removes containers; returns the sandboxes that still have some.
    async fn containers<'s>(
        &self,
        survey: &'s Survey,
        away: &mut UnavailableStreak,
        report: &mut Report,
    ) -> BTreeSet<&'s SandboxId> {
        let logs_go = survey.pods_without_logs();
        let mut decided = survey.containers(self.parts);
        let (mut under_way, mut occupied) = (FuturesUnordered::new(), BTreeSet::new());
        loop {
            while under_way.len() < REMOVALS_AT_A_TIME
                && !away.is_certain()
                && let Some((item, container)) = decided.next()
            {
                match self.verdict(&item) {
                    Some(verdict) => {
                        let log_goes = logs_go.contains(&container.pod_uid);
                        under_way.push(self.doomed_container(verdict, container, log_goes));
                    }
                    None => {
                        occupied.insert(&container.sandbox_id);
                    }
                }
            }
            let Some((container, verdict, outcome)) = under_way.next().await else {
                return occupied;
            };
            if outcome.is_err() {
                occupied.insert(&container.sandbox_id);
            }
            away.saw(&outcome);
            self.done(verdict, outcome, report);
        }
    }

    async fn doomed_container<'s>(
        &self,
        verdict: Verdict,
        container: &'s Container,
        log_goes: bool,
    ) -> (&'s Container, Verdict, Result<(), KeepReason>) {
        let outcome = match self.parts.removals.begin(&container.id).await {
            Some(_removal) => {
                self.guarded(&verdict, self.container(container, &verdict, log_goes)).await
            }
            None => Ok(()),
        };
        (container, verdict, outcome)
    }

    /// Removes a container with its log and log link. With `log_goes`, this pass, or else the next, removes all
    /// logs of the pod.
    async fn container(
        &self,
        container: &Container,
        verdict: &Verdict,
        log_goes: bool,
    ) -> Result<(), KeepReason> {
        self.stands(verdict)?;
        let mut log = None;
        if !(log_goes && container.state == ContainerState::Exited) {
            match self.parts.runtime.containers.container_status(&container.id).await {
                Ok(status) if status.state == ContainerState::Running => return Err(RUNS),
                Ok(status) => {
                    // It may have exited since it was listed.
                    if status.state == ContainerState::Unknown {
                        self.stop(container, &status).await?;
                    }
                    log = Some(status.log_path).filter(|path| !log_goes && !path.is_empty());
                }
                // Another process removed it. A remaining link is dangling and is removed as such.
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) => return Err(stays(&error)),
            }
            self.stands(verdict)?;
        }
        let Container { pod, name, id, .. } = container;
        let log = log.as_deref().map(Path::new);
        for subject in self.parts.logs.removal_order(pod, name, id, log) {
            let verdict = Verdict { subject, ..verdict.clone() };
            match verdict.subject {
                Subject::Container(_) => {
                    unless_gone(self.parts.runtime.containers.remove_container(&verdict).await)?;
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
        away: &mut UnavailableStreak,
        report: &mut Report,
    ) {
        let doomed = survey.sandboxes.iter().filter_map(|item| match &item.subject {
            Subject::Sandbox(id) if !occupied.contains(id) => Some((item, id)),
            _ => None,
        });
        let doomed: Vec<(&Item, &SandboxId)> = doomed.collect();
        let mut waiting = doomed.into_iter();
        let mut under_way = FuturesUnordered::new();
        loop {
            while under_way.len() < REMOVALS_AT_A_TIME
                && !away.is_certain()
                && let Some((item, id)) = waiting.next()
            {
                let verdict = self.verdict(item);
                under_way.extend(verdict.map(|verdict| self.doomed_sandbox(verdict, id)));
            }
            let Some((verdict, outcome)) = under_way.next().await else { return };
            away.saw(&outcome);
            self.done(verdict, outcome, report);
        }
    }

    async fn doomed_sandbox(
        &self,
        verdict: Verdict,
        id: &SandboxId,
    ) -> (Verdict, Result<(), KeepReason>) {
        let outcome = self.guarded(&verdict, self.sandbox(id, &verdict)).await;
        (verdict, outcome)
    }

    /// It should be stopped already; this makes sure.
    async fn sandbox(&self, id: &SandboxId, verdict: &Verdict) -> Result<(), KeepReason> {
        self.stands(verdict)?;
        unless_gone(self.parts.runtime.sandboxes.stop_pod_sandbox(id).await)?;
        self.stands(verdict)?;
        unless_gone(self.parts.runtime.sandboxes.remove_pod_sandbox(verdict).await)
    }

    /// Removes the log directory of a pod, or a link.
    async fn logs(&self, verdict: &Verdict) -> Result<(), KeepReason> {
        self.stands(verdict)?;
        self.file(verdict).await
    }

    async fn file(&self, verdict: &Verdict) -> Result<(), KeepReason> {
        let logs = &self.parts.logs;
        let root = match (&verdict.subject, &verdict.owner) {
            (Subject::LogLink(_), _) => &logs.container_links,
            (Subject::PodLogs(_), Some(owner)) if !self.logs_may_go(&owner.uid) => {
                return Err(POD_CAME_BACK);
            }
            _ => &logs.pod_logs,
        };
        let removed = self.parts.files.remove(root, verdict).await;
        removed.map(drop).map_err(|error| KeepReason::Failed(Chain(&error).to_string()))
    }

    fn logs_may_go(&self, uid: &PodUid) -> bool {
        self.parts.pods.sources_ready() && self.parts.pods.state(uid).logs_removable().is_some()
    }
}

/// A missing object counts as removed.
fn unless_gone(result: Result<(), RuntimeError>) -> Result<(), KeepReason> {
    match result {
        Err(error) if !error.is_not_found() => Err(stays(&error)),
        _ => Ok(()),
    }
}

fn stays(error: &RuntimeError) -> KeepReason {
    let text = error.to_string();
    if error.is_unavailable() { KeepReason::RuntimeAway(text) } else { KeepReason::Failed(text) }
}
