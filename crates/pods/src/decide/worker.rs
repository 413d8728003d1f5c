//! The life of a pod on the node, as a state machine over all pods.
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
//! A pod only moves forward; what appears of it when it has finished is ended in its turn. At most one job
//! runs for a pod; whatever is asked meanwhile is merged into the next one. A grace only ever shrinks.

mod working;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use model::ids::{PodName, PodUid};
use model::pod_state::WorkerState;
use podspec::view;

use crate::decide::requeue::Retry;

pub use working::{Config, Lifecycle, Working};

/// The shortest grace.
const LEAST_GRACE: Duration = Duration::from_secs(1);

/// What a worker works on.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// A pod that a source gave us.
    Pod(Arc<Pod>),
    /// Something of a pod that nobody gave us, found in the runtime. It can only be ended.
    RuntimeOnly(PodName),
}

impl Target {
    /// Whether it has its name for itself. What only the runtime knows may be an earlier version of
    /// a static pod, and that one must not meet the next.
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

/// What is asked of a pod's worker.
#[derive(Debug, Clone, PartialEq)]
pub enum Update {
    /// The pod is new.
    Create(Arc<Pod>),
    /// The pod changed, or should be looked at.
    Update(Arc<Pod>),
    /// Look at the pod.
    Sync,
    /// The pod must end.
    Kill {
        /// What to end.
        target: Target,
        /// How long it may take; else the pod says.
        grace: Option<Duration>,
        /// Whether the node needs what the pod uses.
        evict: bool,
    },
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Something is asked of a pod's worker.
    Asked(PodUid, Update),
    /// The job of a pod ended.
    Ended(PodUid, Outcome),
    /// The wait of a pod is over.
    Due(PodUid),
    /// Something of a pod lives whose worker was finished: a call that was given up took effect late.
    Appeared(PodUid),
    /// These pods are wanted; no others.
    Desired(BTreeSet<PodUid>),
}

impl Event {
    /// The pod it is about, if it is about one.
    pub fn pod(&self) -> Option<&PodUid> {
        match self {
            Self::Asked(uid, _) | Self::Ended(uid, _) | Self::Due(uid) | Self::Appeared(uid) => {
                Some(uid)
            }
            Self::Desired(_) => None,
        }
    }
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It did what it should.
    Done,
    /// A sync found that the pod has finished by itself.
    Finished,
    /// It failed, or must be done again.
    Again(Retry),
    /// It was told to stop.
    Cancelled,
}

/// A job.
#[derive(Debug, Clone, PartialEq)]
pub enum Job {
    /// Make the pod as specified.
    Sync(Arc<Pod>),
    /// End all of it that runs.
    Terminate(Target, Duration),
    /// Clean up after it.
    CleanUp(Arc<Pod>),
}

impl Job {
    /// The pod, unless only the runtime knows it.
    pub fn pod(&self) -> Option<&Arc<Pod>> {
        match self {
            Self::Sync(pod) | Self::CleanUp(pod) | Self::Terminate(Target::Pod(pod), _) => {
                Some(pod)
            }
            Self::Terminate(Target::RuntimeOnly(_), _) => None,
        }
    }
}

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Run a job for a pod.
    Start(PodUid, Job),
    /// Tell the running job to stop: there is something more urgent.
    Cancel(PodUid),
    /// Wake the pod up later.
    Requeue(PodUid, Retry),
    /// Nothing of the pod runs any more.
    Terminated(PodUid),
    /// The pod's worker is finished.
    Finished(PodUid),
    /// Nothing is remembered of the pod any more.
    Forgotten(PodUid),
}

impl Command {
    /// The pod it is about.
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

/// Where a pod is in its life.
#[derive(Debug, Clone, PartialEq)]
enum Stage {
    /// A static pod whose name is still taken by another.
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
    /// The name under which it waits for its turn, whatever it is called later.
    name: PodName,
    stage: Stage,
    /// The job that runs.
    running: Option<Work>,
    /// Whether something was asked that the running job does not know of.
    pending: bool,
    /// A pod with this uid came again while this one was ending: start over when it has ended.
    restart: bool,
    /// Why it ends, as far as what is left of it depends on that.
    because: Option<Because>,
    /// Whether nobody wants it any more.
    orphan: bool,
}

/// Why a pod ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Because {
    /// The node needs what it uses.
    Evicted,
    /// Nobody wants it any more.
    Deleted,
}

/// All pods with a worker.
#[derive(Debug, Clone, Default)]
pub struct Workers {
    known: BTreeMap<PodUid, Worker>,
    /// Static pods by name, in order of arrival, behind pods that came only to be ended; the first one
    /// has the name. A pod leaves when it has finished.
    queues: BTreeMap<PodName, VecDeque<PodUid>>,
    /// Those whose `orphan` has changed, until somebody asks.
    other_orphans: Vec<PodUid>,
}

impl Workers {
    /// Takes in what happened; answers what to do, in this order.
    pub fn step(&mut self, event: Event) -> Vec<Command> {
        let mut commands = Vec::new();
        match event {
            Event::Asked(uid, update) => self.asked(&uid, update, &mut commands),
            Event::Ended(uid, outcome) => self.ended(&uid, outcome, &mut commands),
            Event::Due(uid) => self.asked(&uid, Update::Sync, &mut commands),
            Event::Appeared(uid) => self.appeared(&uid, &mut commands),
            Event::Desired(desired) => self.desired(&desired, &mut commands),
        }
        commands
    }

    /// Whether something of the pod may run: it has a worker that has not ended it.
    pub fn may_run(&self, uid: &PodUid) -> bool {
        let stage = self.known.get(uid).map(|worker| &worker.stage);
        stage.is_some_and(|stage| !matches!(stage, Stage::Terminated | Stage::Finished))
    }

    /// How far the pod is, as far as what is left of it depends on that. One that will start over keeps
    /// what is left of its earlier self until then; and nothing goes before it was told how it ended, which
    /// nobody could say afterwards.
    pub fn state(&self, uid: &PodUid) -> Option<WorkerState> {
        let worker = self.known.get(uid)?;
        let is_told = worker.stage == Stage::Finished;
        let because = worker.because.filter(|_| !worker.restart && is_told);
        Some(WorkerState {
            evicted: because == Some(Because::Evicted),
            deleted: because == Some(Because::Deleted),
            terminated: matches!(worker.stage, Stage::Terminated | Stage::Finished),
        })
    }

    /// The name under which the pod's worker began.
    pub fn name(&self, uid: &PodUid) -> Option<&PodName> {
        self.known.get(uid).map(|worker| &worker.name)
    }

    /// Whether the pod has a worker.
    pub fn knows(&self, uid: &PodUid) -> bool {
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

    fn asked(&mut self, uid: &PodUid, update: Update, commands: &mut Vec<Command>) {
        if !self.known.contains_key(uid) {
            let target = match &update {
                Update::Create(pod) | Update::Update(pod) => Target::Pod(Arc::clone(pod)),
                Update::Kill { target, .. } => target.clone(),
                Update::Sync => return,
            };
            let ends = matches!(update, Update::Kill { .. });
            self.welcome(uid, target, ends);
        } else if let Update::Create(_) = &update {
            let worker = self.known.get_mut(uid).expect("it was just found");
            if !matches!(worker.stage, Stage::Waiting | Stage::Syncing) {
                worker.restart = true;
                return;
            }
        }
        let worker = self.known.get_mut(uid).expect("it was found or made above");
        let mut asked_grace = None;
        let (mut killed, mut evict) = (false, false);
        match update {
            Update::Create(pod) | Update::Update(pod) => worker.target = Target::Pod(pod),
            Update::Sync => {}
            Update::Kill { grace, target, evict: evicted } => {
                (killed, evict) = (true, evicted);
                asked_grace = grace;
                // A known specification says more than what the runtime remembers.
                if let Target::Pod(_) = target {
                    worker.target = target;
                }
            }
        }
        let goes = killed || must_go(&worker.target);
        let before = worker.because;
        if goes && matches!(worker.stage, Stage::Waiting | Stage::Syncing) {
            let deleted = is_unwanted(&worker.target).then_some(Because::Deleted);
            worker.because = deleted.or(evict.then_some(Because::Evicted));
        }
        if is_evicted(&worker.target) {
            worker.because = worker.because.or(Some(Because::Evicted));
        }
        match &mut worker.stage {
            // Told once more: what is left of it may go now.
            Stage::Finished if before != worker.because => {
                commands.push(Command::Finished(uid.clone()));
            }
            Stage::Waiting if goes => {
                commands.push(Command::Terminated(uid.clone()));
                self.finish(uid, commands);
            }
            Stage::Syncing if goes => {
                let grace = grace(None, &worker.target, asked_grace);
                worker.stage = Stage::Terminating { grace };
                self.wake(uid, true, commands);
            }
            Stage::Terminating { grace: stored } => {
                let shorter = grace(Some(*stored), &worker.target, asked_grace);
                let shrinks = shorter < *stored;
                *stored = shorter;
                self.wake(uid, shrinks, commands);
            }
            Stage::Waiting | Stage::Finished => {}
            Stage::Syncing | Stage::Terminated => self.wake(uid, false, commands),
        }
    }

    fn welcome(&mut self, uid: &PodUid, target: Target, ends: bool) {
        let (mut stage, name) = (Stage::Syncing, target.name());
        if target.holds_its_name() {
            let queue = self.queues.entry(name.clone()).or_default();
            if ends {
                // What runs and only has to end does so at once, and whoever waits for the name waits for that.
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
            because: None,
            orphan: false,
        };
        self.known.insert(uid.clone(), worker);
    }

    /// Runs the job that the pod's stage asks for, now or after the one that runs.
    fn wake(&mut self, uid: &PodUid, urgent: bool, commands: &mut Vec<Command>) {
        let worker = self.known.get_mut(uid).expect("only known pods are woken");
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
                (Work::Terminate, Job::Terminate(target.clone(), *grace))
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
            // The job that ended may have been the sync before. Whatever was asked during a
            // termination, such as to look at the death of its containers, is settled by its end.
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

    /// Ends what appeared of a pod that had ended, as what nobody wants; others of its name wait for that.
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

    /// Gives the name free; the next static pod of it starts.
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

    /// Ends what nobody wants, and forgets what has ended.
    fn desired(&mut self, desired: &BTreeSet<PodUid>, commands: &mut Vec<Command>) {
        for (uid, worker) in &mut self.known {
            let orphan = !desired.contains(uid);
            if std::mem::replace(&mut worker.orphan, orphan) != orphan {
                self.other_orphans.push(uid.clone());
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
                    self.asked(&uid, Update::Kill { target, grace: None, evict: false }, commands);
                    if let Some(worker) = self.known.get_mut(&uid) {
                        worker.because = Some(Because::Deleted);
                    }
                }
                // Under way, or waiting for its next try.
                Stage::Terminating { .. } | Stage::Terminated => {}
            }
        }
    }
}

/// Whether nobody wants the pod any more, as far as it says itself.
fn is_unwanted(target: &Target) -> bool {
    match target {
        Target::RuntimeOnly(_) => true,
        Target::Pod(pod) => view::is_being_deleted(pod),
    }
}

/// Whether the API says that the pod was evicted, such as an earlier agent or somebody else did.
fn is_evicted(target: &Target) -> bool {
    matches!(target, Target::Pod(pod) if view::is_evicted(pod))
}

/// Whether the pod says itself that it must end.
fn must_go(target: &Target) -> bool {
    match target {
        Target::RuntimeOnly(_) => true,
        Target::Pod(pod) => view::is_being_deleted(pod) || view::is_over(pod),
    }
}

/// The grace of a pod that ends: the shortest of what was said so far. What the specification says
/// counts only while nobody said anything else.
fn grace(stored: Option<Duration>, target: &Target, asked: Option<Duration>) -> Duration {
    let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let (deletion, specified) = match target {
        Target::RuntimeOnly(_) => (None, None),
        Target::Pod(pod) => (
            pod.metadata.deletion_grace_period_seconds.map(seconds),
            view::spec(pod).and_then(|spec| spec.termination_grace_period_seconds).map(seconds),
        ),
    };
    let shortest = [stored, deletion, asked].into_iter().flatten().min();
    shortest.or(specified).unwrap_or(LEAST_GRACE).max(LEAST_GRACE)
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
