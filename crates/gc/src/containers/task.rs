//! Schedules passes.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use model::chain::{Chain, aggregate};
use model::ids::PodUid;
use model::panics::{PanicStep, PanicSubject};
use model::ports::events::{EventType, NodeEvent};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, debug, info, info_span, warn};

use super::survey::PODS_ALONE;
use super::{Changed, PassError, Report, Request, Shared, Step, act, survey};
use crate::decide::containers::ExitTimes;
use crate::decide::schedule::{
    GATHERING, LONGEST_HOLD, LastPass, WHOLE_PASSES_APART, is_held, looks_at_files,
    reads_the_runtime, ripens_in,
};
use crate::plan::Fate;

/// The mode of the log directory.
const LOGS_MODE: u32 = 0o750;

/// The state of the task; only the task changes it.
#[derive(Debug)]
pub struct ContainerGcTask {
    shared: Arc<Shared>,
    requests: mpsc::Receiver<Request>,
    ended: ExitTimes,
    last: LastPass,
    /// The versions of the log and link directories at the last survey that found nothing to remove.
    files: Option<survey::Versions>,
    /// Whether the last pass failed, so that the next success is logged.
    failed: bool,
    /// The time since when the collection of gone pods waits for terminating pods.
    held: Option<Instant>,
    /// When a regular pass is due early: a container reaches the minimum age.
    ripens: Option<Instant>,
    /// When containers beyond a cap are checked.
    early: Option<Instant>,
    /// The end of the last full pass.
    whole: Option<Instant>,
    /// The last regular or full pass.
    passed: Option<Instant>,
}

impl ContainerGcTask {
    pub(super) fn new(shared: Arc<Shared>, requests: mpsc::Receiver<Request>) -> Self {
        let (ended, last) = (ExitTimes::new(), LastPass::default());
        Self {
            shared,
            requests,
            ended,
            last,
            files: None,
            failed: false,
            held: None,
            ripens: None,
            early: None,
            whole: None,
            passed: None,
        }
    }

    /// Makes passes until stopped; a pass in progress is abandoned.
    pub async fn run(mut self, stop: CancellationToken) {
        // Biased: the stop comes first.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.passes() => {}
        }
    }

    async fn passes(&mut self) {
        self.make_log_directory().await;
        let period = self.shared.parts.policy.period;
        let mut next = Instant::now();
        loop {
            let shared = Arc::clone(&self.shared);
            let held = self.held.map(|since| since + LONGEST_HOLD);
            let (early, soon) = (self.early, self.ripens.map_or(next, |at| at.min(next)));
            // Biased: regular passes first; they are due once in a period, when sources become ready, and when
            // a container reaches the minimum age. Then requests, which are rare. Gone pods and exceeded caps
            // are merged, so they wait without growing.
            tokio::select! {
                biased;
                () = due(soon, &shared.now) => {
                    self.ripens = None;
                    self.regular().await;
                    next = Instant::now() + period;
                }
                request = self.requests.recv() => match request {
                    Some(request) => self.requested(request).await,
                    None => return,
                },
                () = shared.bell.notified() => self.pods().await,
                () = shared.early_bell.notified() => self.gather(),
                () = sleep_until(early.unwrap_or(next)), if early.is_some() => {
                    if self.over_caps().await {
                        next = Instant::now() + period;
                    }
                }
                () = sleep_until(held.unwrap_or(next)), if held.is_some() => self.pods().await,
            }
        }
    }

    /// The directory must exist to be read; upstream creates it at its start.
    async fn make_log_directory(&self) {
        let parts = &self.shared.parts;
        let path = &parts.logs.pod_logs;
        if let (Some(root), Some(name)) = (path.parent(), path.file_name())
            && let Err(error) = parts.files.create_directory(root, name.as_ref(), LOGS_MODE).await
        {
            warn!(error = %Chain(&error), "Cannot create pod log directory");
        }
    }

    async fn regular(&mut self) {
        self.passed = Some(Instant::now());
        let changed = std::mem::take(&mut *self.shared.changed());
        let counts_all = self.shared.parts.policy.in_all.is_some() && !changed.pods.is_empty();
        let all = changed.all || counts_all || changed.pods.len() > PODS_ALONE;
        if reads_the_runtime(self.last, all) {
            let report = self.whole(false, &|_| {}).await;
            self.log_result(&report);
            return;
        }
        self.last.passed_over += 1;
        let pods_changed = changed.files || !changed.pods.is_empty();
        for uid in changed.pods {
            self.pod(&uid).await;
        }
        let parts = &self.shared.parts;
        // Before the survey: later changes give another version.
        let versions = survey::versions(parts).await;
        if !looks_at_files(self.files.as_ref(), &versions, pods_changed) {
            return;
        }
        let mut found = survey::files(parts).await;
        let report = act::carry_out(parts, &mut found, &|_| {}).await;
        // A dangling link that stays waits for its container.
        let waits = found.links.iter().any(|link| link.fate == Fate::Keep);
        self.files = (report.is_complete() && !waits).then_some(versions);
        self.log_result(&report);
    }

    async fn requested(&mut self, request: Request) {
        let Request { aggressive, steps, report } = request;
        // A slow reader must not delay the pass.
        let report_step = |step: Step| drop(steps.try_send(step));
        let done = self.whole(aggressive, &report_step).await;
        self.report_failure(&done);
        drop(report.send(done));
    }

    /// A full pass.
    async fn whole(&mut self, aggressive: bool, report_step: act::StepSink<'_>) -> Report {
        let parts = &self.shared.parts;
        let ended = &mut self.ended;
        let pass = async {
            let mut found = survey::all(parts, aggressive, ended).await;
            let report = act::carry_out(parts, &mut found, report_step).await;
            (report, found.something_is_too_young, found.ripens)
        };
        // The name of upstream's trace span of a pass.
        let (report, waits, ripens) =
            pass.instrument(info_span!("Containers/GarbageCollect")).await;
        self.last = LastPass { settled: report.is_complete() && !waits, passed_over: 0 };
        self.whole = Some(Instant::now());
        self.passed = self.whole;
        // The pass covered everything.
        self.ripens = None;
        self.wake_at(ripens);
        report
    }

    /// Schedules the check of exceeded caps.
    fn gather(&mut self) {
        let parts = &self.shared.parts;
        let Some(wait) = self.shared.early().due(parts, parts.clock.now()) else { return };
        let at = Instant::now() + wait;
        self.early = Some(self.early.map_or(at, |early| early.min(at)));
    }

    /// Removes containers beyond a cap; returns whether that took a full pass.
    async fn over_caps(&mut self) -> bool {
        self.early = None;
        let pods = self.shared.early().take_pods();
        for uid in pods {
            self.pod(&uid).await;
        }
        let parts = &self.shared.parts;
        let due = self.shared.early().node_due(parts, parts.clock.now());
        let Some(wait) = due.filter(|_| parts.pods.sources_ready()) else { return false };
        let earliest = self.whole.map(|last| last + WHOLE_PASSES_APART);
        let now = Instant::now();
        if wait > GATHERING || earliest.is_some_and(|earliest| earliest > now) {
            self.early = Some(earliest.unwrap_or(now).max(now + wait));
            return false;
        }
        *self.shared.changed() = Changed::default();
        let report = self.whole(false, &|_| {}).await;
        self.log_result(&report);
        true
    }

    /// Schedules a pass for a container that reaches the minimum age.
    fn wake_at(&mut self, ripens: Option<Timestamp>) {
        let Some(at) = ripens else { return };
        let wait = at.duration_since(self.shared.parts.clock.now());
        let left = Duration::try_from(wait).unwrap_or_default();
        let wait = ripens_in(left, self.passed.map(|passed| passed.elapsed()));
        let at = Instant::now() + wait;
        self.ripens = Some(self.ripens.map_or(at, |ripens| ripens.min(at)));
    }

    /// Collects gone pods, unless others are terminating: the end of each is reported.
    async fn pods(&mut self) {
        let since = *self.held.get_or_insert_with(Instant::now);
        if is_held(self.shared.parts.pods.any_terminating(), since.elapsed()) {
            return;
        }
        self.held = None;
        let removable = std::mem::take(&mut *self.shared.removable());
        for uid in removable {
            self.pod(&uid).await;
        }
    }

    /// Collects one gone pod. The next regular pass retries failures and deferred removals.
    async fn pod(&mut self, uid: &PodUid) {
        let guard = self.shared.parts.panics.clone();
        let of = PanicSubject::Pod(uid, None);
        if guard.catch_async(PanicStep::ContainerGc, of, self.pod_unguarded(uid)).await.is_err() {
            self.shared.changed().pods.insert(uid.clone());
        }
    }

    async fn pod_unguarded(&mut self, uid: &PodUid) {
        let parts = &self.shared.parts;
        let mut found = survey::pod(parts, uid).await;
        let report = act::carry_out(parts, &mut found, &|_| {}).await;
        debug!(%uid, removed = report.removed(), failed = report.failed(), "Collected a removed pod");
        for problem in &report.problems {
            warn!(%uid, error = %Chain(problem), "Cannot collect a removed pod, leaving it to the next pass");
        }
        if !report.is_complete() || found.something_is_too_young {
            self.shared.changed().pods.insert(uid.clone());
        }
        self.wake_at(found.ripens);
    }

    fn log_result(&mut self, report: &Report) {
        self.report_failure(report);
        let (removed, failed) = (report.removed(), report.failed());
        if !report.problems.is_empty() {
            self.failed = true;
        } else if std::mem::take(&mut self.failed) {
            info!(removed, failed, "Container garbage collection succeeds again");
        } else {
            debug!(removed, failed, "Container garbage collection succeeded");
        }
    }

    /// Every pass with a failed part is reported by an event, as upstream does.
    fn report_failure(&self, report: &Report) {
        let Some(message) = aggregate(report.problems.iter().map(PassError::event_message)) else {
            return;
        };
        let problems = aggregate(report.problems.iter().map(|one| Chain(one).to_string()));
        warn!(error = problems.unwrap_or_default(), "Container garbage collection failed");
        self.shared.parts.events.record(NodeEvent {
            kind: EventType::Warning,
            reason: "ContainerGCFailed",
            message,
        });
    }
}

/// Waits until a regular pass is due, by time or by notification.
async fn due(next: Instant, now: &Notify) {
    // Biased: the order does not matter.
    tokio::select! {
        biased;
        () = now.notified() => {}
        () = sleep_until(next) => {}
    }
}
