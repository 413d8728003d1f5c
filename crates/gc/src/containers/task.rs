//! When passes are made.

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
    GATHERING, LONGEST_HOLD, LastPass, WHOLE_PASSES_APART, asks_the_runtime, is_held,
    looks_at_files, ripens_in,
};
use crate::plan::Fate;

/// Who may read the logs of pods.
const LOGS_MODE: u32 = 0o750;

/// The task's state, which it alone changes.
#[derive(Debug)]
pub struct ContainerGcTask {
    shared: Arc<Shared>,
    requests: mpsc::Receiver<Request>,
    ended: ExitTimes,
    last: LastPass,
    /// The directories of logs and links at the last look that left nothing to do.
    files: Option<survey::Versions>,
    /// Whether the last pass failed, so that the next success is logged.
    failed: bool,
    /// Since when the remains of pods wait for others that are being ended.
    held: Option<Instant>,
    /// When a regular pass is due before its time: something will be old enough to go.
    ripens: Option<Instant>,
    /// When what went over a cap is looked at.
    early: Option<Instant>,
    /// The end of the last whole pass.
    whole: Option<Instant>,
    /// The last regular or whole pass.
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
        // Biased: stopping comes once.
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
            // Biased: the regular pass first, which comes once in a period, when sources become ready, and when
            // something is old enough to go; then what is asked for, at the pace of people; pods that are gone
            // or over a cap are merged and so wait without growing.
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

    /// The directory must be there to be read; upstream makes it at its start.
    async fn make_log_directory(&self) {
        let parts = &self.shared.parts;
        let path = &parts.logs.pod_logs;
        if let (Some(root), Some(name)) = (path.parent(), path.file_name())
            && let Err(error) = parts.files.create_directory(root, name.as_ref(), LOGS_MODE).await
        {
            warn!(error = %Chain(&error), "cannot make the directory of logs");
        }
    }

    async fn regular(&mut self) {
        self.passed = Some(Instant::now());
        let changed = std::mem::take(&mut *self.shared.changed());
        let counts_all = self.shared.parts.policy.in_all.is_some() && !changed.pods.is_empty();
        let all = changed.all || counts_all || changed.pods.len() > PODS_ALONE;
        if asks_the_runtime(self.last, all) {
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
        // Before the look: what comes during it makes another version.
        let versions = survey::versions(parts).await;
        if !looks_at_files(self.files.as_ref(), &versions, pods_changed) {
            return;
        }
        let mut found = survey::files(parts).await;
        let report = act::carry_out(parts, &mut found, &|_| {}).await;
        // A link that stays although it leads nowhere waits for its container.
        let waits = found.links.iter().any(|link| link.fate == Fate::Keep);
        self.files = (report.is_complete() && !waits).then_some(versions);
        self.log_result(&report);
    }

    async fn requested(&mut self, request: Request) {
        let Request { aggressive, steps, report } = request;
        // One that reads too slowly or not at all must not hold the pass up.
        let tell = |step: Step| drop(steps.try_send(step));
        let done = self.whole(aggressive, &tell).await;
        self.tell_failure(&done);
        drop(report.send(done));
    }

    /// A whole pass.
    async fn whole(&mut self, aggressive: bool, tell: act::Tell<'_>) -> Report {
        let parts = &self.shared.parts;
        let ended = &mut self.ended;
        let pass = async {
            let mut found = survey::all(parts, aggressive, ended).await;
            let report = act::carry_out(parts, &mut found, tell).await;
            (report, found.something_is_too_young, found.ripens)
        };
        // What upstream's trace of a pass is called.
        let (report, waits, ripens) =
            pass.instrument(info_span!("Containers/GarbageCollect")).await;
        self.last = LastPass { settled: report.is_complete() && !waits, passed_over: 0 };
        self.whole = Some(Instant::now());
        self.passed = self.whole;
        // It looked at everything.
        self.ripens = None;
        self.wake_at(ripens);
        report
    }

    /// Notes when what went over a cap is to be looked at.
    fn gather(&mut self) {
        let parts = &self.shared.parts;
        let Some(wait) = self.shared.early().due(parts, parts.clock.now()) else { return };
        let at = Instant::now() + wait;
        self.early = Some(self.early.map_or(at, |early| early.min(at)));
    }

    /// Removes what went over a cap; tells whether that took a whole pass.
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

    /// Something will be old enough to go at this moment.
    fn wake_at(&mut self, ripens: Option<Timestamp>) {
        let Some(at) = ripens else { return };
        let wait = at.duration_since(self.shared.parts.clock.now());
        let left = Duration::try_from(wait).unwrap_or_default();
        let wait = ripens_in(left, self.passed.map(|passed| passed.elapsed()));
        let at = Instant::now() + wait;
        self.ripens = Some(self.ripens.map_or(at, |ripens| ripens.min(at)));
    }

    /// Removes what is left of pods that are gone, unless others are about to be: each of those rings.
    async fn pods(&mut self) {
        let since = *self.held.get_or_insert_with(Instant::now);
        if is_held(self.shared.parts.pods.any_ends(), since.elapsed()) {
            return;
        }
        self.held = None;
        let removable = std::mem::take(&mut *self.shared.removable());
        for uid in removable {
            self.pod(&uid).await;
        }
    }

    /// Looks at what is left of one pod. What could not be done, or not yet, is done by the next regular
    /// pass.
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
        debug!(%uid, removed = report.removed(), failed = report.failed(), "looked at what is left of a pod");
        for problem in &report.problems {
            warn!(%uid, error = %Chain(problem), "cannot look at what is left of a pod; the next pass will");
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
            info!(removed, failed, "container garbage collection succeeds again");
        } else {
            debug!(removed, failed, "container garbage collection succeeded");
        }
    }

    /// Every pass with a failed part is reported by an event, as upstream does.
    fn report_failure(&self, report: &Report) {
        let Some(message) = aggregate(report.problems.iter().map(PassError::event_message)) else {
            return;
        };
        let problems = aggregate(report.problems.iter().map(|one| Chain(one).to_string()));
        warn!(error = problems.unwrap_or_default(), "container garbage collection failed");
        self.shared.parts.events.record(NodeEvent {
            kind: EventType::Warning,
            reason: "ContainerGCFailed",
            message,
        });
    }
}

/// Waits until a regular pass is due, by time or because somebody says so.
async fn due(next: Instant, now: &Notify) {
    // Biased: either will do.
    tokio::select! {
        biased;
        () = now.notified() => {}
        () = sleep_until(next) => {}
    }
}
