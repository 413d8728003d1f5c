//! Runs the workers' jobs: one task owns the state of all pods, each job is a separate task.

mod fresh;
mod guarded;
mod handle;
mod times;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use model::ids::PodUid;
use model::in_flight::InFlight;
use model::observed::RuntimePodStatus;
use model::panics::PanicGuard;
use model::ports::clock::WallClock;
use model::ports::events::Events;
use model::ports::runtime::RuntimeError;
use model::seq::{Seq, SeqCounter};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use crate::decide::pod_retries::PodRetries;
use crate::decide::requeue::{Retry, requeue_after};
use crate::decide::worker::{Command, Event, Job, Outcome, Termination, Update, Workers};
use crate::metrics::Metrics;
use crate::states::WorkerStates;

use guarded::Work;
use handle::Request;
pub use handle::{ExceededGracePeriod, WorkersHandle};
use times::Times;

/// The result of a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncResult {
    /// The outcome.
    pub outcome: Outcome,
    /// Whether it changed anything, so that the next observation of the pod differs.
    pub acted: bool,
}

/// Syncs and terminates a pod. Implemented where runtime, volumes and status are wired together.
#[async_trait]
pub trait PodSyncer: Debug + Send + Sync {
    /// Syncs the pod with its specification, given its status. Never dropped, because half a sandbox would leak;
    /// `cancel` is cancelled when the pod is to terminate, for waits that may take for ever.
    async fn sync(
        &self,
        pod: &Arc<Pod>,
        status: &RuntimePodStatus,
        cancel: &CancellationToken,
    ) -> SyncResult;
    /// Stops everything of the pod that runs; `Done` when nothing does. May be dropped to be
    /// started again with a shorter grace period.
    async fn terminate(&self, termination: &Termination, status: &RuntimePodStatus) -> Outcome;
    /// Reports that the pod cannot be synced, because its status is unknown.
    fn status_unknown(&self, pod: &Pod, error: &RuntimeError);
    /// Cleans up after a terminated pod.
    async fn clean_up(&self, pod: &Arc<Pod>, status: &RuntimePodStatus) -> Outcome;
}

/// Provides the observed statuses of pods.
#[async_trait]
pub trait PodStatuses: Debug + Send + Sync {
    /// The status from an observation that began after `after`; waits for one.
    async fn newer_than(
        &self,
        uid: &PodUid,
        after: Seq,
    ) -> Result<Arc<RuntimePodStatus>, RuntimeError>;
    /// Requests an observation of the pod now.
    fn look_at(&self, uid: &PodUid);
    /// The status from an observation that began after `after`, if there is one already.
    fn known_since(
        &self,
        uid: &PodUid,
        after: Seq,
    ) -> Option<Result<Arc<RuntimePodStatus>, RuntimeError>>;
}

/// Dependencies of the workers.
#[derive(Debug, Clone)]
pub struct WorkerParts {
    /// Syncs and terminates pods.
    pub syncer: Arc<dyn PodSyncer>,
    /// The observed statuses.
    pub statuses: Arc<dyn PodStatuses>,
    /// Records which pods are being acted on, for observers.
    pub in_flight: InFlight,
    /// Orders actions and observations.
    pub seq: SeqCounter,
    /// The wall clock.
    pub clock: Arc<dyn WallClock>,
    /// Receives events for users.
    pub events: Arc<dyn Events>,
    /// `syncFrequency`: the period of syncs without a change.
    pub resync: Duration,
    /// Metrics.
    pub metrics: Metrics,
    /// Catches panics in the work for a single pod.
    pub panics: PanicGuard,
}

/// An event of a worker, for the sync loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerEvent {
    /// The pod's worker is finished.
    Finished(PodUid),
    /// The state of the pod was dropped; a pod with this uid may be created again.
    Forgotten(PodUid),
}

/// The interval of the grid to which periodic syncs are aligned.
const GRID: Duration = Duration::from_secs(5);

/// The state of the workers' task, which is its only user.
#[derive(Debug)]
pub struct WorkersTask {
    parts: WorkerParts,
    workers: Workers,
    requests: mpsc::Receiver<Request>,
    /// The states of pods, published for others.
    states: WorkerStates,
    /// The callers that wait for the termination of each pod.
    waiters: BTreeMap<PodUid, Vec<oneshot::Sender<()>>>,
    /// Read by the sync loop.
    worker_events: mpsc::UnboundedSender<WorkerEvent>,
    jobs: JoinSet<(PodUid, JobResult)>,
    running: BTreeMap<PodUid, Running>,
    /// Waiting pods by the end of their wait.
    due: BTreeSet<(Instant, PodUid)>,
    waits: BTreeMap<PodUid, Wait>,
    /// Steps that panicked, to be repeated.
    redo: PodRetries<Work>,
    /// The last job of each pod.
    last: BTreeMap<PodUid, LastJob>,
    times: Times,
    /// The number of requeues; varies the jitter.
    requeues: u64,
    /// The origin of the grid of periodic syncs.
    epoch: Instant,
}

/// The wait of a pod.
#[derive(Debug, Clone, Copy)]
struct Wait {
    at: Instant,
    /// Whether it waits for its resync only.
    is_resync: bool,
}

/// The result of the last job of a pod.
#[derive(Debug, Clone, Default)]
struct LastJob {
    /// When it last changed something: the next job needs an observation that began later.
    ended: Seq,
    /// Whether such an observation was requested when it ended.
    look_asked: bool,
}

/// The result of an ended job.
#[derive(Debug)]
struct JobResult {
    synced: SyncResult,
    /// The time of its last change, if it has observed the effect: then the next job needs no new observation.
    seen_since: Option<Seq>,
}

impl From<SyncResult> for JobResult {
    fn from(synced: SyncResult) -> Self {
        Self { synced, seen_since: None }
    }
}

#[derive(Debug)]
struct Running {
    task: tokio::task::Id,
    cancel: CancellationToken,
}

/// Creates the workers' task. The event channel carries at most two messages for each pod that ends, so it needs
/// no bound.
pub fn workers(
    parts: WorkerParts,
) -> (WorkersTask, WorkersHandle, mpsc::UnboundedReceiver<WorkerEvent>) {
    let (sender, requests) = mpsc::channel(256);
    let (worker_events, receiver) = mpsc::unbounded_channel();
    let (states, events) = (WorkerStates::default(), Arc::clone(&parts.events));
    let task = WorkersTask {
        states: states.clone(),
        times: Times::new(parts.metrics.clone()),
        parts,
        workers: Workers::default(),
        requests,
        waiters: BTreeMap::new(),
        worker_events,
        jobs: JoinSet::new(),
        running: BTreeMap::new(),
        due: BTreeSet::new(),
        waits: BTreeMap::new(),
        redo: PodRetries::default(),
        last: BTreeMap::new(),
        requeues: 0,
        epoch: Instant::now(),
    };
    (task, WorkersHandle { requests: sender, states, events }, receiver)
}

impl WorkersTask {
    /// Runs jobs until `stop` is cancelled; then waits for no job: pods keep running.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let due = self.due.first().map(|(at, _)| *at);
            let next = due.into_iter().chain(self.next_redo()).min();
            // Biased: stopping first; then ended jobs, of which there is at most one for each pod;
            // then waits, which are spaced by seconds; requests last. Requests are still served,
            // because the other branches are not ready for ever.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(joined) = self.jobs.join_next_with_id() => self.joined(joined),
                () = sleep_until(next) => self.wake_due(),
                request = self.requests.recv() => match request {
                    Some(Request::Event(event)) => self.step(event),
                    Some(Request::KillAndNotify(uid, update, done)) => {
                        self.kill_and_notify(&uid, update, done);
                    }
                    None => return,
                },
            }
        }
    }

    fn kill_and_notify(&mut self, uid: &PodUid, update: Update, done: oneshot::Sender<()>) {
        self.waiters.entry(uid.clone()).or_default().push(done);
        self.step(Event::Updated(uid.clone(), update));
        if !self.workers.may_run(uid) {
            self.release(uid);
        }
    }

    fn release(&mut self, uid: &PodUid) {
        for waiter in self.waiters.remove(uid).into_iter().flatten() {
            // The receiver may have timed out.
            waiter.send(()).ok();
        }
    }

    fn step(&mut self, event: Event) {
        let updated = event.pod().cloned();
        if let Event::Updated(uid, update) = &event {
            self.times.requested(uid, update);
        }
        let commands = self.decide_guarded(event);
        // Before the commands: their receivers must see the new state.
        let others = self.workers.take_changed_orphans();
        for uid in updated.iter().chain(commands.iter().map(Command::pod)).chain(&others) {
            let now = self.workers.working(uid);
            let before = self.states.set(uid, self.workers.state(uid).zip(now));
            self.parts.metrics.counted(before, now);
        }
        for command in commands {
            self.carry_out_guarded(command);
        }
        if let Some(uid) = updated.as_ref().filter(|uid| !self.running.contains_key(*uid)) {
            self.times.skipped(uid);
        }
        self.terminate_remains(updated.as_ref());
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Start(uid, job) => self.start(uid, job),
            Command::Cancel(uid) => {
                if let Some(running) = self.running.get(&uid) {
                    running.cancel.cancel();
                }
            }
            Command::Requeue(uid, retry) => self.requeue(uid, retry),
            Command::Terminated(uid) => self.release(&uid),
            Command::Finished(uid) => {
                self.times.finished(&uid);
                self.unqueue(&uid);
                self.send_event(WorkerEvent::Finished(uid));
            }
            Command::Forgotten(uid) => {
                self.unqueue(&uid);
                self.last.remove(&uid);
                self.times.forgotten(&uid);
                self.send_event(WorkerEvent::Forgotten(uid));
            }
        }
    }

    /// Terminates the remains of a finished pod, or of all finished pods.
    fn terminate_remains(&mut self, of: Option<&PodUid>) {
        let has_remains = |uid: &&PodUid| {
            self.workers.is_finished(uid) && self.guarded(uid, || self.has_remains(uid)) == Ok(true)
        };
        let appeared: Vec<PodUid> = match of {
            Some(uid) => Some(uid).filter(has_remains).into_iter().cloned().collect(),
            None => self.workers.uids().filter(has_remains).cloned().collect(),
        };
        for uid in appeared {
            warn!(%uid, "Container or sandbox appeared after its pod terminated, stopping it");
            self.step(Event::Appeared(uid));
        }
    }

    /// Whether something of a pod runs that was not observed when the pod terminated.
    fn has_remains(&self, uid: &PodUid) -> bool {
        let ended = self.last.get(uid).map(|last| last.ended);
        let seen = ended.and_then(|ended| self.parts.statuses.known_since(uid, ended));
        seen.is_some_and(|seen| seen.is_ok_and(|status| status.is_running()))
    }

    fn send_event(&self, event: WorkerEvent) {
        if self.worker_events.send(event).is_err() {
            debug!("Sync loop has stopped, dropping worker event");
        }
    }

    fn start(&mut self, uid: PodUid, job: Job) {
        self.unqueue(&uid);
        let last = self.last.get(&uid).cloned();
        let cancel = CancellationToken::new();
        let parts = self.parts.clone();
        let (for_job, token) = (uid.clone(), cancel.clone());
        self.times.began(&uid);
        let handle = self.jobs.spawn(async move {
            let ran = guarded::run(&parts, &for_job, job, last, token).await;
            (for_job, ran)
        });
        self.running.insert(uid, Running { task: handle.id(), cancel });
    }

    fn joined(
        &mut self,
        joined: Result<(tokio::task::Id, (PodUid, JobResult)), tokio::task::JoinError>,
    ) {
        let (uid, JobResult { synced, seen_since }) = match joined {
            Ok((_, ended)) => ended,
            Err(error) => {
                let id = error.id();
                let found = self.running.iter().find(|(_, running)| running.task == id);
                let Some((uid, _)) = found else { return };
                error!(%uid, %error, "Pod job panicked, retrying");
                (uid.clone(), guarded::FAILED.into())
            }
        };
        self.running.remove(&uid);
        self.times.ended(&uid);
        let ended = seen_since.unwrap_or_else(|| self.parts.seq.next());
        let last = LastJob { ended, look_asked: synced.acted };
        self.last.insert(uid.clone(), last);
        if synced.acted && self.guarded(&uid, || self.parts.statuses.look_at(&uid)).is_err() {
            // The next job requests an observation itself.
            self.last.entry(uid.clone()).or_default().look_asked = false;
        }
        self.step(Event::Ended(uid, synced.outcome));
    }

    fn requeue(&mut self, uid: PodUid, retry: Retry) {
        self.requeues += 1;
        let jitter = jitter(&uid, self.requeues);
        let wait = requeue_after(retry, self.parts.resync, jitter, self.parts.clock.now());
        let now = Instant::now();
        let is_resync = retry == Retry::Resync;
        let at = now + wait;
        let at = if is_resync { together(self.epoch, now + self.parts.resync, at) } else { at };
        self.unqueue(&uid);
        self.wait(uid, Wait { at, is_resync });
    }

    fn wait(&mut self, uid: PodUid, wait: Wait) {
        self.due.insert((wait.at, uid.clone()));
        self.waits.insert(uid, wait);
    }

    fn unqueue(&mut self, uid: &PodUid) {
        if let Some(Wait { at, .. }) = self.waits.remove(uid) {
            self.due.remove(&(at, uid.clone()));
        }
    }

    fn wake_due(&mut self) {
        let now = Instant::now();
        self.do_again();
        while self.due.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, uid)) = self.due.pop_first() else { return };
            let wait = self.waits.remove(&uid);
            let is_resync = wait.is_some_and(|wait| wait.is_resync);
            if is_resync && self.guarded(&uid, || self.is_seen(&uid)) == Ok(false) {
                let at = now + self.parts.resync.min(GRID);
                self.wait(uid, Wait { at, is_resync: true });
                continue;
            }
            self.step(Event::Due(uid));
        }
    }

    /// Whether a pod was observed since its last job. A resync waits for the relist, which comes soon:
    /// requesting an observation for each periodic sync would cost runtime calls for every pod every minute.
    fn is_seen(&self, uid: &PodUid) -> bool {
        let Some(last) = self.last.get(uid) else { return true };
        self.parts.statuses.known_since(uid, last.ended).is_some()
    }
}

/// Aligns a periodic sync with the grid point before it, but not before `earliest`:
/// otherwise the many pods of an idle node would wake the agent one by one.
fn together(epoch: Instant, earliest: Instant, at: Instant) -> Instant {
    let since = |time: Instant| time.duration_since(epoch).as_nanos() / GRID.as_nanos();
    let point = |number: u128| {
        let number = u32::try_from(number).ok()?;
        GRID.checked_mul(number).and_then(|offset| epoch.checked_add(offset))
    };
    let before = point(since(at)).filter(|before| *before >= earliest);
    let after = point(since(earliest) + 1).filter(|after| *after <= at);
    before.or(after).unwrap_or(at)
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// A number between 0 and 1 that differs by pod and turn, and is reproducible in tests.
fn jitter(uid: &PodUid, turn: u64) -> f64 {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ turn.wrapping_mul(SPREAD);
    for byte in uid.as_str().bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    // The last bytes hardly affect the upper half, which is used.
    hash = (hash ^ (hash >> 32)).wrapping_mul(SPREAD);
    f64::from(u32::try_from(hash >> 32).unwrap_or(0)) / f64::from(u32::MAX)
}

async fn run(
    parts: &WorkerParts,
    uid: &PodUid,
    job: Job,
    last: Option<LastJob>,
    cancel: CancellationToken,
) -> JobResult {
    let cancelled = SyncResult { outcome: Outcome::Cancelled, acted: false };
    let seen_since = last.as_ref().map(|last| last.ended);
    // Biased in all selects: the token is cancelled at most once, which ends the job.
    let status = tokio::select! {
        biased;
        () = cancel.cancelled() => return cancelled.into(),
        status = fresh::status(parts, uid, last) => status,
    };
    let status = match status {
        Ok(status) => status,
        Err(error) => {
            if let Some(pod) = job.pod() {
                parts.syncer.status_unknown(pod, &error);
            } else {
                warn!(%uid, %error, "Cannot get pod status, retrying");
            }
            return SyncResult { outcome: Outcome::Again(Retry::Failure), acted: false }.into();
        }
    };
    let synced = match job {
        Job::Sync(pod) => {
            let guard = parts.in_flight.begin(uid);
            let synced = parts.syncer.sync(&pod, &status, &cancel).await;
            drop(guard);
            return JobResult::from(synced);
        }
        Job::Terminate(termination) => {
            return tokio::select! {
                biased;
                () = cancel.cancelled() => JobResult::from(SyncResult { acted: true, ..cancelled }),
                ran = terminate(parts, &termination, &status) => ran,
            };
        }
        Job::CleanUp(pod) => tokio::select! {
            biased;
            () = cancel.cancelled() => cancelled,
            outcome = parts.syncer.clean_up(&pod, &status) => SyncResult { outcome, acted: false },
        },
    };
    // Cleaning up starts and stops nothing: an observation made since the termination is still valid.
    JobResult { seen_since, ..JobResult::from(synced) }
}

/// Terminates a pod and verifies that: a container may have appeared after the status was
/// taken, or have survived. A pod has terminated only if nothing of it runs.
async fn terminate(
    parts: &WorkerParts,
    termination: &Termination,
    status: &RuntimePodStatus,
) -> JobResult {
    let outcome = parts.syncer.terminate(termination, status).await;
    if outcome != Outcome::Done {
        return SyncResult { outcome, acted: true }.into();
    }
    let ended = parts.seq.next();
    let last = LastJob { ended, ..LastJob::default() };
    match fresh::status_after(&*parts.statuses, &status.uid, last).await {
        Ok(after) if !after.may_be_alive() => {
            let synced = SyncResult { outcome, acted: false };
            return JobResult { seen_since: Some(ended), ..JobResult::from(synced) };
        }
        Ok(_) => {
            warn!(uid = %status.uid, "Pod still has running containers or sandboxes after its termination, retrying");
        }
        Err(error) => {
            warn!(uid = %status.uid, %error, "Cannot verify pod termination, retrying");
        }
    }
    SyncResult { outcome: Outcome::Again(Retry::Failure), acted: true }.into()
}

#[cfg(test)]
#[path = "workers_tests.rs"]
mod tests;
