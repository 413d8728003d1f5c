//! The lifecycle of a pod on the node, as a state machine over all pods.
//!
//! ```text
//!             update                  deleted, killed,           all ended            cleaned up
//!  (unknown) ────────> [waiting] ──> syncing ───────> terminating ───────> terminated ─────────> finished
//!                   (static pods of     ^  │ finished by itself ^                                  │ │
//!                    the same name)     └──┘────────────────────┤      something of it appeared    │ │
//!                                                               └──────────────────────────────────┘ │
//!                                                                                    forgotten <─────┘
//! ```
//!
//! A pod only moves forward; remains that appear after it has finished are terminated again. At most one job
//! runs for a pod; updates that arrive meanwhile are merged into the next job. A grace period only ever shrinks.

mod working;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use model::ids::{PodName, PodUid};
use model::pod_failure::PodFailure;
use model::pod_state::WorkerState;
use podspec::view;

use crate::decide::requeue::Retry;

pub use working::{Config, Lifecycle, Working};

/// The minimum grace period.
const LEAST_GRACE: Duration = Duration::from_secs(1);

/// What a worker manages.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// A pod from a source.
    Pod(Arc<Pod>),
    /// A pod that no source lists, found in the runtime. It can only be terminated.
    RuntimeOnly(PodName),
}

impl Target {
    /// Whether the pod must be the only one of its name. A pod found in the runtime may be an earlier version of
    /// a static pod, which must not run at the same time as the next version.
    fn holds_its_name(&self) -> bool {
        match self {
            Self::Pod(pod) => view::is_static(pod),
            Self::RuntimeOnly(_) => true,
        }
    }

    pub(crate) fn name(&self) -> PodName {
        match self {
            Self::Pod(pod) => view::pod_name(pod),
            Self::RuntimeOnly(name) => name.clone(),
        }
    }
}

/// An update for a pod's worker.
#[derive(Debug, Clone, PartialEq)]
pub enum Update {
    /// The pod is new.
    Create(Arc<Pod>),
    /// The pod changed, or needs a sync.
    Update(Arc<Pod>),
    /// Sync the pod.
    Sync,
    /// Terminate the pod.
    Kill {
        /// The pod to terminate.
        target: Target,
        /// The grace period; `None` for that of the pod.
        grace: Option<Duration>,
        /// Why the pod fails, if it is evicted because the node needs its resources.
        failure: Option<Arc<PodFailure>>,
    },
}

/// An input of the state machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// An update for a pod's worker.
    Updated(PodUid, Update),
    /// The job of a pod ended.
    Ended(PodUid, Outcome),
    /// The wait of a pod ended.
    Due(PodUid),
    /// A container or sandbox of a pod runs although its worker has finished: a cancelled call took
    /// effect late.
    Appeared(PodUid),
    /// Exactly these pods are desired.
    Desired(BTreeSet<PodUid>),
}

impl Event {
    /// The pod that the event is about, unless it is about all.
    pub fn pod(&self) -> Option<&PodUid> {
        match self {
            Self::Updated(uid, _) | Self::Ended(uid, _) | Self::Due(uid) | Self::Appeared(uid) => {
                Some(uid)
            }
            Self::Desired(_) => None,
        }
    }
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The job did its work.
    Done,
    /// A sync found that the pod has finished by itself.
    Finished,
    /// The job failed, or must be repeated.
    Again(Retry),
    /// The job was cancelled.
    Cancelled,
}

/// How a pod is terminated.
#[derive(Debug, Clone, PartialEq)]
pub struct Termination {
    /// The pod.
    pub target: Target,
    /// The grace period.
    pub grace: Duration,
    /// Why the pod fails, if the node evicts it.
    pub failure: Option<Arc<PodFailure>>,
}

/// A job.
#[derive(Debug, Clone, PartialEq)]
pub enum Job {
    /// Sync the pod.
    Sync(Arc<Pod>),
    /// Stop everything of the pod that runs.
    Terminate(Termination),
    /// Clean up after the pod.
    CleanUp(Arc<Pod>),
}

impl Job {
    /// The pod, unless it is known to the runtime only.
    pub fn pod(&self) -> Option<&Arc<Pod>> {
        match self {
            Self::Sync(pod)
            | Self::CleanUp(pod)
            | Self::Terminate(Termination { target: Target::Pod(pod), .. }) => Some(pod),
            Self::Terminate(Termination { target: Target::RuntimeOnly(_), .. }) => None,
        }
    }
}

/// An output of the state machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Run a job for a pod.
    Start(PodUid, Job),
    /// Cancel the running job: a more urgent one waits.
    Cancel(PodUid),
    /// Wake the pod up after a wait.
    Requeue(PodUid, Retry),
    /// Nothing of the pod runs any more.
    Terminated(PodUid),
    /// The pod's worker is finished.
    Finished(PodUid),
    /// The state of the pod was dropped.
    Forgotten(PodUid),
}

impl Command {
    /// The pod that the command is about.
    pub fn pod(&self) -> &PodUid {
        match self {
            Self::Start(uid, _)
            | Self::Cancel(uid)
            | Self::Requeue(uid, _)
            | Self::Terminated(uid)
            | Self::Finished(uid)
            | Self::Forgotten(uid) => uid,
        }
    }
}

/// The stage of a pod's lifecycle.
#[derive(Debug, Clone, PartialEq)]
enum Stage {
    /// A static pod while another pod has its name.
    Waiting,
    Syncing,
    Terminating {
        grace: Duration,
    },
    Terminated,
    Finished,
}

/// A kind of job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Sync,
    Terminate,
    CleanUp,
}

#[derive(Debug, Clone)]
struct Worker {
    target: Target,
    /// The name that it queued up with, even if the pod's name changes later.
    name: PodName,
    stage: Stage,
    /// The running job.
    running: Option<Work>,
    /// Whether an update arrived after the running job began.
    pending: bool,
    /// A pod with this uid was created again while this one terminates: start over afterwards.
    restart: bool,
    /// The reason why the pod ends. It decides whether its containers and logs are kept.
    end_reason: Option<EndReason>,
    /// Why the pod fails, if the node evicts it.
    failure: Option<Arc<PodFailure>>,
    /// Whether no source lists the pod any more.
    orphan: bool,
}

/// Why a pod ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndReason {
    /// The node needs its resources.
    Evicted,
    /// The pod was deleted, or its source removed it.
    Deleted,
}

/// All pods with a worker.
#[derive(Debug, Clone, Default)]
pub struct Workers {
    known: BTreeMap<PodUid, Worker>,
    /// Static pods by name, in order of arrival, after pods that are only to be terminated; the first one
    /// holds the name. A pod leaves when it has finished.
    queues: BTreeMap<PodName, VecDeque<PodUid>>,
    /// Pods whose `orphan` changed since the last [`Self::take_changed_orphans`].
    changed_orphans: Vec<PodUid>,
}

impl Workers {
    /// Processes an event; returns the commands in the order in which they must be executed.
    pub fn step(&mut self, event: Event) -> Vec<Command> {
        let mut commands = Vec::new();
        match event {
            Event::Updated(uid, update) => self.updated(&uid, update, &mut commands),
            Event::Ended(uid, outcome) => self.ended(&uid, outcome, &mut commands),
            Event::Due(uid) => self.updated(&uid, Update::Sync, &mut commands),
            Event::Appeared(uid) => self.appeared(&uid, &mut commands),
            Event::Desired(desired) => self.desired(&desired, &mut commands),
        }
        commands
    }

    /// Whether something of the pod may run: it has a worker that has not terminated it.
    pub fn may_run(&self, uid: &PodUid) -> bool {
        let stage = self.known.get(uid).map(|worker| &worker.stage);
        stage.is_some_and(|stage| !matches!(stage, Stage::Terminated | Stage::Finished))
    }

    /// The state of the pod, as far as its remains depend on that. A pod that starts over keeps its remains until then.
    /// Remains are kept until the final status is computed, because they are its only evidence.
    pub fn state(&self, uid: &PodUid) -> Option<WorkerState> {
        let worker = self.known.get(uid)?;
        let is_finished = worker.stage == Stage::Finished;
        let reason = worker.end_reason.filter(|_| !worker.restart && is_finished);
        Some(WorkerState {
            evicted: reason == Some(EndReason::Evicted),
            deleted: reason == Some(EndReason::Deleted),
            terminated: matches!(worker.stage, Stage::Terminated | Stage::Finished),
        })
    }

    /// The name that the pod's worker was created with.
    pub fn name(&self, uid: &PodUid) -> Option<&PodName> {
        self.known.get(uid).map(|worker| &worker.name)
    }

    /// Whether the pod has a worker.
    pub fn has_worker(&self, uid: &PodUid) -> bool {
        self.known.contains_key(uid)
    }

    /// Whether the pod's worker is finished.
    pub fn is_finished(&self, uid: &PodUid) -> bool {
        self.known.get(uid).is_some_and(|worker| worker.stage == Stage::Finished)
    }

    /// The pods that have a worker.
    pub fn uids(&self) -> impl Iterator<Item = &PodUid> {
        self.known.keys()
    }

    fn updated(&mut self, uid: &PodUid, update: Update, commands: &mut Vec<Command>) {
        if !self.known.contains_key(uid) {
            let target = match &update {
                Update::Create(pod) | Update::Update(pod) => Target::Pod(Arc::clone(pod)),
                Update::Kill { target, .. } => target.clone(),
                Update::Sync => return,
            };
            let ends = matches!(update, Update::Kill { .. });
            self.add(uid, target, ends);
        } else if let Update::Create(_) = &update {
            let worker = self.known.get_mut(uid).expect("the worker exists");
            if !matches!(worker.stage, Stage::Waiting | Stage::Syncing) {
                worker.restart = true;
                return;
            }
        }
        let worker = self.known.get_mut(uid).expect("the worker was found or created above");
        let (mut requested_grace, mut killed, mut evict) = (None, false, false);
        match update {
            Update::Create(pod) | Update::Update(pod) => worker.target = Target::Pod(pod),
            Update::Sync => {}
            Update::Kill { grace, target, failure } => {
                (killed, evict) = (true, failure.is_some());
                requested_grace = grace;
                worker.failure = worker.failure.take().or(failure);
                // The specification of a source is more complete than what the runtime returns.
                if let Target::Pod(_) = target {
                    worker.target = target;
                }
            }
        }
        let ends = killed || must_end(&worker.target);
        let before = worker.end_reason;
        if ends && matches!(worker.stage, Stage::Waiting | Stage::Syncing) {
            let deleted = is_deleted(&worker.target).then_some(EndReason::Deleted);
            worker.end_reason = deleted.or(evict.then_some(EndReason::Evicted));
        }
        if is_evicted(&worker.target) {
            worker.end_reason = worker.end_reason.or(Some(EndReason::Evicted));
        }
        match &mut worker.stage {
            // Report it again: its remains may be removed now.
            Stage::Finished if before != worker.end_reason => {
                commands.push(Command::Finished(uid.clone()));
            }
            Stage::Waiting if ends => {
                commands.push(Command::Terminated(uid.clone()));
                self.finish(uid, commands);
            }
            Stage::Syncing if ends => {
                let grace = grace(None, &worker.target, requested_grace);
                worker.stage = Stage::Terminating { grace };
                self.wake(uid, true, commands);
            }
            Stage::Terminating { grace: stored } => {
                let shorter = grace(Some(*stored), &worker.target, requested_grace);
                let shrinks = shorter < *stored;
                *stored = shorter;
                self.wake(uid, shrinks, commands);
            }
            Stage::Waiting | Stage::Finished => {}
            Stage::Syncing | Stage::Terminated => self.wake(uid, false, commands),
        }
    }

    fn add(&mut self, uid: &PodUid, target: Target, ends: bool) {
        let (mut stage, name) = (Stage::Syncing, target.name());
        if target.holds_its_name() {
            let queue = self.queues.entry(name.clone()).or_default();
            if ends {
                // A pod that only terminates starts at once; others wait for the name until it has terminated.
                queue.push_front(uid.clone());
            } else {
                queue.push_back(uid.clone());
                if queue.len() > 1 {
                    stage = Stage::Waiting;
                }
            }
        }
        let worker = Worker {
            target,
            name,
            stage,
            running: None,
            pending: false,
            restart: false,
            end_reason: None,
            failure: None,
            orphan: false,
        };
        self.known.insert(uid.clone(), worker);
    }

    /// Starts the job for the pod's stage, now or after the running job.
    fn wake(&mut self, uid: &PodUid, urgent: bool, commands: &mut Vec<Command>) {
        let worker = self.known.get_mut(uid).expect("the worker exists");
        if worker.running.is_some() {
            if urgent {
                commands.push(Command::Cancel(uid.clone()));
            }
            worker.pending = true;
            return;
        }
        let (work, job) = match (&worker.stage, &worker.target) {
            (Stage::Syncing, Target::Pod(pod)) => (Work::Sync, Job::Sync(Arc::clone(pod))),
            (Stage::Terminating { grace }, target) => {
                let failure = worker.failure.clone();
                let termination = Termination { target: target.clone(), grace: *grace, failure };
                (Work::Terminate, Job::Terminate(termination))
            }
            (Stage::Terminated, Target::Pod(pod)) => (Work::CleanUp, Job::CleanUp(Arc::clone(pod))),
            (Stage::Waiting | Stage::Finished, _)
            | (Stage::Syncing | Stage::Terminated, Target::RuntimeOnly(_)) => return,
        };
        worker.running = Some(work);
        worker.pending = false;
        commands.push(Command::Start(uid.clone(), job));
    }

    fn ended(&mut self, uid: &PodUid, outcome: Outcome, commands: &mut Vec<Command>) {
        let Some(worker) = self.known.get_mut(uid) else { return };
        let ran = worker.running.take();
        let moved_on = std::mem::take(&mut worker.pending);
        match (&worker.stage, outcome) {
            (Stage::Syncing, Outcome::Finished) => {
                let grace = grace(None, &worker.target, None);
                worker.stage = Stage::Terminating { grace };
                self.wake(uid, false, commands);
            }
            (Stage::Syncing, Outcome::Done) if !moved_on => {
                commands.push(Command::Requeue(uid.clone(), Retry::Resync));
            }
            // The job that ended may have been the sync before. Updates that arrive during a
            // termination, such as for the exit of its containers, need no further job.
            (Stage::Terminating { .. }, Outcome::Done) if ran == Some(Work::Terminate) => {
                worker.stage = Stage::Terminated;
                commands.push(Command::Terminated(uid.clone()));
                match worker.target {
                    Target::Pod(_) => self.wake(uid, false, commands),
                    Target::RuntimeOnly(_) => self.finish(uid, commands),
                }
            }
            (Stage::Terminated, Outcome::Done) => self.finish(uid, commands),
            (_, Outcome::Again(retry)) if !moved_on => {
                commands.push(Command::Requeue(uid.clone(), retry));
            }
            (_, Outcome::Cancelled) if !moved_on => {
                commands.push(Command::Requeue(uid.clone(), Retry::Failure));
            }
            _ => self.wake(uid, false, commands),
        }
    }

    fn finish(&mut self, uid: &PodUid, commands: &mut Vec<Command>) {
        let Some(worker) = self.known.get_mut(uid) else { return };
        worker.stage = Stage::Finished;
        let name = worker.name.clone();
        commands.push(Command::Finished(uid.clone()));
        self.leave_queue(uid, &name, commands);
    }

    /// Terminates the remains that appeared after a pod had finished; others of its name wait for that.
    fn appeared(&mut self, uid: &PodUid, commands: &mut Vec<Command>) {
        let Some(worker) = self.known.get_mut(uid) else { return };
        if worker.stage != Stage::Finished {
            return;
        }
        worker.stage = Stage::Terminating { grace: LEAST_GRACE };
        if worker.target.holds_its_name() {
            self.queues.entry(worker.name.clone()).or_default().push_front(uid.clone());
        }
        self.wake(uid, false, commands);
    }

    /// Releases the name; the next static pod of that name starts.
    fn leave_queue(&mut self, uid: &PodUid, name: &PodName, commands: &mut Vec<Command>) {
        let Some(queue) = self.queues.get_mut(name) else { return };
        queue.retain(|queued| queued != uid);
        let Some(next) = queue.front().cloned() else {
            self.queues.remove(name);
            return;
        };
        if let Some(worker) = self.known.get_mut(&next)
            && worker.stage == Stage::Waiting
        {
            worker.stage = Stage::Syncing;
            self.wake(&next, false, commands);
        }
    }

    /// Terminates pods that are not desired, and forgets those that have finished.
    fn desired(&mut self, desired: &BTreeSet<PodUid>, commands: &mut Vec<Command>) {
        for (uid, worker) in &mut self.known {
            let orphan = !desired.contains(uid);
            if std::mem::replace(&mut worker.orphan, orphan) != orphan {
                self.changed_orphans.push(uid.clone());
            }
        }
        let leaving: Vec<PodUid> = self
            .known
            .iter()
            .filter(|(uid, worker)| worker.restart || !desired.contains(*uid))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in leaving {
            let worker = &self.known[&uid];
            let target = worker.target.clone();
            match worker.stage {
                Stage::Finished => {
                    self.known.remove(&uid);
                    commands.push(Command::Forgotten(uid));
                }
                _ if desired.contains(&uid) => {}
                Stage::Waiting | Stage::Syncing => {
                    self.updated(
                        &uid,
                        Update::Kill { target, grace: None, failure: None },
                        commands,
                    );
                    if let Some(worker) = self.known.get_mut(&uid) {
                        worker.end_reason = Some(EndReason::Deleted);
                    }
                }
                // It is terminating already, or waits for its next attempt.
                Stage::Terminating { .. } | Stage::Terminated => {}
            }
        }
    }
}

/// Whether the pod is deleted, or known to the runtime only.
fn is_deleted(target: &Target) -> bool {
    match target {
        Target::RuntimeOnly(_) => true,
        Target::Pod(pod) => view::is_being_deleted(pod),
    }
}

/// Whether the API server shows the pod as evicted, by an earlier agent or another client.
fn is_evicted(target: &Target) -> bool {
    matches!(target, Target::Pod(pod) if view::is_evicted(pod))
}

/// Whether the pod must terminate by its own state.
fn must_end(target: &Target) -> bool {
    match target {
        Target::RuntimeOnly(_) => true,
        Target::Pod(pod) => view::is_being_deleted(pod) || view::is_terminal(pod),
    }
}

/// The grace period of a terminating pod: the shortest one requested so far. That of the specification
/// applies only if none was requested.
fn grace(stored: Option<Duration>, target: &Target, requested: Option<Duration>) -> Duration {
    let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let (deletion, specified) = match target {
        Target::RuntimeOnly(_) => (None, None),
        Target::Pod(pod) => (
            pod.metadata.deletion_grace_period_seconds.map(seconds),
            view::spec(pod).and_then(|spec| spec.termination_grace_period_seconds).map(seconds),
        ),
    };
    let shortest = [stored, deletion, requested].into_iter().flatten().min();
    shortest.or(specified).unwrap_or(LEAST_GRACE).max(LEAST_GRACE)
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
