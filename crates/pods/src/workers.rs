//! Runs the workers' jobs: one task owns the state of all pods, each job is a task of its own.

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
use model::acts::Acts;
use model::ids::PodUid;
use model::observed::PodStatus;
use model::panics::PanicGuard;
use model::ports::clock::WallClock;
use model::ports::events::Events;
use model::ports::runtime::RuntimeError;
use model::stamp::{Stamp, Stamps};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use crate::decide::pod_retries::PodRetries;
use crate::decide::requeue::{Retry, requeue_after};
use crate::decide::worker::{Command, Event, Job, Outcome, Target, Update, Workers};
use crate::metrics::Metrics;
use crate::states::WorkerStates;

use guarded::Work;
use handle::Request;
pub use handle::{ExceededGracePeriod, WorkersHandle};
use times::Times;

/// How a sync ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Synced {
    /// How.
    pub outcome: Outcome,
    /// Whether it did anything, so that a look at the pod will show something new.
    pub acted: bool,
}

/// Does the work for a pod. Implemented by whoever wires the runtime, volumes and status together.
#[async_trait]
pub trait PodSyncer: Debug + Send + Sync {
    /// Makes the pod as specified, given its status. Never cut off, because half a sandbox would leak;
    /// `cancel` says that the pod is to end, for waits that may take for ever.
    async fn sync(&self, pod: &Arc<Pod>, status: &PodStatus, cancel: &CancellationToken) -> Synced;
    /// Ends everything of the pod that runs; `Done` when nothing does. May be cancelled to be
    /// started again with a shorter grace.
    async fn terminate(&self, target: &Target, status: &PodStatus, grace: Duration) -> Outcome;
    /// Says that nothing could be done for a pod, because nobody knows how it is.
    fn status_unknown(&self, pod: &Pod, error: &RuntimeError);
    /// Cleans up after a pod that has ended.
    async fn clean_up(&self, pod: &Arc<Pod>, status: &PodStatus) -> Outcome;
}

/// Where workers learn how their pods are.
#[async_trait]
pub trait Statuses: Debug + Send + Sync {
    /// What a look at the pod showed that began after `after`; waits for one.
    async fn newer_than(&self, uid: &PodUid, after: Stamp) -> Result<Arc<PodStatus>, RuntimeError>;
    /// Asks for a look at the pod now.
    fn look_at(&self, uid: &PodUid);
    /// The same, if there is one already.
    fn known_since(
        &self,
        uid: &PodUid,
        after: Stamp,
    ) -> Option<Result<Arc<PodStatus>, RuntimeError>>;
}

/// What the workers work with.
#[derive(Debug, Clone)]
pub struct WorkerParts {
    /// Does the work.
    pub syncer: Arc<dyn PodSyncer>,
    /// Tells how pods are.
    pub statuses: Arc<dyn Statuses>,
    /// Who looks hears from it which pods are acted on.
    pub acts: Acts,
    /// Orders actions and looks.
    pub stamps: Stamps,
    /// The time of day.
    pub clock: Arc<dyn WallClock>,
    /// Whom people hear from.
    pub events: Arc<dyn Events>,
    /// `syncFrequency`: how often a pod is looked at without need.
    pub resync: Duration,
    /// What is timed.
    pub metrics: Metrics,
    /// Catches panics in the work for single pods.
    pub panics: PanicGuard,
}

/// What became of a pod, for the sync loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// The pod's worker is finished.
    Finished(PodUid),
    /// Nothing is remembered of the pod; a pod with this uid may come again.
    Forgotten(PodUid),
}

/// How far the points are apart at which regular looks fall together.
const GRID: Duration = Duration::from_secs(5);

/// The task's state; nobody else touches it.
#[derive(Debug)]
pub struct WorkersTask {
    parts: WorkerParts,
    workers: Workers,
    requests: mpsc::Receiver<Request>,
    /// What others see of it.
    states: WorkerStates,
    /// Who waits for the end of which pod.
    waiters: BTreeMap<PodUid, Vec<oneshot::Sender<()>>>,
    /// Read by the sync loop.
    news: mpsc::UnboundedSender<News>,
    jobs: JoinSet<(PodUid, Ran)>,
    running: BTreeMap<PodUid, Running>,
    /// Pods that wait, by the end of their wait.
    due: BTreeSet<(Instant, PodUid)>,
    waits: BTreeMap<PodUid, Wait>,
    /// What panicked, to be done again.
    redo: PodRetries<Work>,
    /// The last job of each pod.
    last: BTreeMap<PodUid, LastJob>,
    times: Times,
    /// Makes waits differ from one another.
    requeues: u64,
    /// When regular looks began to be counted: those of many pods fall together.
    epoch: Instant,
}

/// Until when a pod waits.
#[derive(Debug, Clone, Copy)]
struct Wait {
    at: Instant,
    /// Whether for its resync and nothing else.
    is_resync: bool,
}

/// How the last job of a pod left things.
#[derive(Debug, Clone, Default)]
struct LastJob {
    /// When it did its last: the next one wants a look that began later.
    ended: Stamp,
    /// Whether such a look was asked for when it ended.
    look_asked: bool,
}

/// A job that ended.
#[derive(Debug)]
struct Ran {
    synced: Synced,
    /// When it did its last, if it has seen what came of that: then the next one need not look again.
    seen_since: Option<Stamp>,
}

impl From<Synced> for Ran {
    fn from(synced: Synced) -> Self {
        Self { synced, seen_since: None }
    }
}

#[derive(Debug)]
struct Running {
    task: tokio::task::Id,
    cancel: CancellationToken,
}

/// Makes the workers' task. `news` carries at most two messages for each pod that ends, so it needs
/// no bound of its own.
pub fn workers(parts: WorkerParts) -> (WorkersTask, WorkersHandle, mpsc::UnboundedReceiver<News>) {
    let (sender, requests) = mpsc::channel(256);
    let (news, receiver) = mpsc::unbounded_channel();
    let (states, events) = (WorkerStates::default(), Arc::clone(&parts.events));
    let task = WorkersTask {
        states: states.clone(),
        times: Times::new(parts.metrics.clone()),
        parts,
        workers: Workers::default(),
        requests,
        waiters: BTreeMap::new(),
        news,
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
    /// Runs jobs until told to stop; then waits for no job: pods are left as they are.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let due = self.due.first().map(|(at, _)| *at);
            let next = due.into_iter().chain(self.next_redo()).min();
            // Biased: stopping first; then ended jobs, of which there is at most one for each pod;
            // then waits, which are spaced by seconds; what is asked comes last and still gets its
            // turn, because the others do not renew themselves without end.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(joined) = self.jobs.join_next_with_id() => self.joined(joined),
                () = sleep_until(next) => self.wake_due(),
                request = self.requests.recv() => match request {
                    Some(Request::Event(event)) => self.step(event),
                    Some(Request::KillAndTell(uid, update, teller)) => {
                        self.kill_and_tell(&uid, update, teller);
                    }
                    None => return,
                },
            }
        }
    }

    fn kill_and_tell(&mut self, uid: &PodUid, update: Update, teller: oneshot::Sender<()>) {
        self.waiters.entry(uid.clone()).or_default().push(teller);
        self.step(Event::Asked(uid.clone(), update));
        if !self.workers.may_run(uid) {
            self.release(uid);
        }
    }

    fn release(&mut self, uid: &PodUid) {
        for waiter in self.waiters.remove(uid).into_iter().flatten() {
            // One that gave up does not listen any more.
            waiter.send(()).ok();
        }
    }

    fn step(&mut self, event: Event) {
        let asked = event.pod().cloned();
        if let Event::Asked(uid, update) = &event {
            self.times.asked(uid, update);
        }
        let commands = self.decide_guarded(event);
        // Before anybody hears of it: who does must find it.
        let others = self.workers.take_other_orphans();
        for uid in asked.iter().chain(commands.iter().map(Command::pod)).chain(&others) {
            let now = self.workers.working(uid);
            let before = self.states.set(uid, self.workers.state(uid).zip(now));
            self.parts.metrics.counted(before, now);
        }
        for command in commands {
            self.carry_out_guarded(command);
        }
        if let Some(uid) = asked.as_ref().filter(|uid| !self.running.contains_key(*uid)) {
            self.times.came_to_nothing(uid);
        }
        self.end_what_appeared(asked.as_ref());
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
                self.tell(News::Finished(uid));
            }
            Command::Forgotten(uid) => {
                self.unqueue(&uid);
                self.last.remove(&uid);
                self.times.forgotten(&uid);
                self.tell(News::Forgotten(uid));
            }
        }
    }

    /// Ends what lives of a pod whose worker is finished, or of any such pod.
    fn end_what_appeared(&mut self, of: Option<&PodUid>) {
        let has_appeared = |uid: &&PodUid| {
            self.workers.is_finished(uid) && self.guarded(uid, || self.lives_again(uid)) == Ok(true)
        };
        let appeared: Vec<PodUid> = match of {
            Some(uid) => Some(uid).filter(has_appeared).into_iter().cloned().collect(),
            None => self.workers.uids().filter(has_appeared).cloned().collect(),
        };
        for uid in appeared {
            warn!(%uid, "something of a pod appeared after its end; stopping it");
            self.step(Event::Appeared(uid));
        }
    }

    /// Whether something of a pod lives that was not there when it was seen to have ended.
    fn lives_again(&self, uid: &PodUid) -> bool {
        let ended = self.last.get(uid).map(|last| last.ended);
        let seen = ended.and_then(|ended| self.parts.statuses.known_since(uid, ended));
        seen.is_some_and(|seen| seen.is_ok_and(|status| status.lives()))
    }

    fn tell(&self, news: News) {
        if self.news.send(news).is_err() {
            debug!("the sync loop has stopped; news of pods are dropped");
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

    fn joined(&mut self, joined: Result<(tokio::task::Id, (PodUid, Ran)), tokio::task::JoinError>) {
        let (uid, Ran { synced, seen_since }) = match joined {
            Ok((_, ended)) => ended,
            Err(error) => {
                let id = error.id();
                let found = self.running.iter().find(|(_, running)| running.task == id);
                let Some((uid, _)) = found else { return };
                error!(%uid, %error, "the job of a pod panicked; it will be tried again");
                (uid.clone(), guarded::FAILED.into())
            }
        };
        self.running.remove(&uid);
        self.times.ended(&uid);
        let ended = seen_since.unwrap_or_else(|| self.parts.stamps.next());
        let last = LastJob { ended, look_asked: synced.acted };
        self.last.insert(uid.clone(), last);
        if synced.acted && self.guarded(&uid, || self.parts.statuses.look_at(&uid)).is_err() {
            // The next job asks for a look itself.
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

    /// Whether a pod was looked at since its last job. A resync waits for the relist, which comes soon:
    /// asking for a look just because time has passed would cost every pod calls every minute.
    fn is_seen(&self, uid: &PodUid) -> bool {
        let Some(last) = self.last.get(uid) else { return true };
        self.parts.statuses.known_since(uid, last.ended).is_some()
    }
}

/// Moves a regular look to the point of a grid before it, but not before the earliest time it may
/// have: otherwise the many pods of a quiet node would wake the agent one by one.
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

/// A number between 0 and 1 that differs by pod and by turn, and is the same in every run of a test.
fn jitter(uid: &PodUid, turn: u64) -> f64 {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ turn.wrapping_mul(SPREAD);
    for byte in uid.as_str().bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    // The last bytes have hardly reached the upper half, which is what counts.
    hash = (hash ^ (hash >> 32)).wrapping_mul(SPREAD);
    f64::from(u32::try_from(hash >> 32).unwrap_or(0)) / f64::from(u32::MAX)
}

async fn run(
    parts: &WorkerParts,
    uid: &PodUid,
    job: Job,
    last: Option<LastJob>,
    cancel: CancellationToken,
) -> Ran {
    let cancelled = Synced { outcome: Outcome::Cancelled, acted: false };
    let seen_since = last.as_ref().map(|last| last.ended);
    // Biased in all selects: a cancellation comes at most once and ends the job.
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
                warn!(%uid, %error, "the status of a pod is not known; trying again");
            }
            return Synced { outcome: Outcome::Again(Retry::Failure), acted: false }.into();
        }
    };
    let synced = match job {
        Job::Sync(pod) => {
            let act = parts.acts.begin(uid);
            let synced = parts.syncer.sync(&pod, &status, &cancel).await;
            drop(act);
            return Ran::from(synced);
        }
        Job::Terminate(target, grace) => {
            return tokio::select! {
                biased;
                () = cancel.cancelled() => Ran::from(Synced { acted: true, ..cancelled }),
                ran = terminate(parts, &target, &status, grace) => ran,
            };
        }
        Job::CleanUp(pod) => tokio::select! {
            biased;
            () = cancel.cancelled() => cancelled,
            outcome = parts.syncer.clean_up(&pod, &status) => Synced { outcome, acted: false },
        },
    };
    // It starts and ends nothing: what was seen since the pod had ended still counts.
    Ran { seen_since, ..Ran::from(synced) }
}

/// Ends a pod, and looks whether it has ended: a container may have appeared after the status was
/// taken, or have survived. Only a pod of which nothing lives has ended.
async fn terminate(
    parts: &WorkerParts,
    target: &Target,
    status: &PodStatus,
    grace: Duration,
) -> Ran {
    let outcome = parts.syncer.terminate(target, status, grace).await;
    if outcome != Outcome::Done {
        return Synced { outcome, acted: true }.into();
    }
    let ended = parts.stamps.next();
    let last = LastJob { ended, ..LastJob::default() };
    match fresh::status_after(&*parts.statuses, &status.uid, last).await {
        Ok(after) if !after.may_be_alive() => {
            let synced = Synced { outcome, acted: false };
            return Ran { seen_since: Some(ended), ..Ran::from(synced) };
        }
        Ok(_) => {
            warn!(uid = %status.uid, "something of a pod lives although it was stopped; trying again");
        }
        Err(error) => {
            warn!(uid = %status.uid, %error, "cannot see whether a pod has ended; trying again");
        }
    }
    Synced { outcome: Outcome::Again(Retry::Failure), acted: true }.into()
}

#[cfg(test)]
#[path = "workers_tests.rs"]
mod tests;
