//! Collecting dead containers, sandboxes and logs.

mod act;
mod deletor;
mod early;
mod removals;
mod stops;
mod survey;
mod task;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use model::chain::Chain;
use model::ids::PodUid;
use model::log_layout::LogLayout;
use model::observed::{Container, ContainerStatus};
use model::panics::PanicGuard;
use model::ports::clock::WallClock;
use model::ports::events::NodeEvents;
use model::ports::files::{FileError, HostFiles};
use model::ports::runtime::{Runtime, RuntimeError};
use model::verdict::Verdict;
use tokio::sync::{Notify, mpsc, oneshot};

pub use self::deletor::{Deletor, DeletorTask};
pub use self::removals::Removals;
pub use self::stops::{StopsTask, background_stops};
pub use self::task::ContainerGcTask;
use crate::decide::PodStates;
use crate::decide::containers::ExitTimes;
use crate::plan::{Fate, Plan};
use crate::policy::ContainerPolicy;

/// Ends a container of which the runtime cannot tell whether it lives, and of whose pod nothing is
/// known but what is written on the container.
#[async_trait]
pub trait StopUnknown: Debug + Send + Sync {
    /// Ends it, with its hook and within the grace that is written on it. A pass that cannot wait any longer
    /// drops this; see [`background_stops`].
    async fn stop(&self, container: &Container, status: &ContainerStatus) -> Result<(), String>;
}

/// What containers are collected with.
#[derive(Debug, Clone)]
pub struct ContainerGcParts {
    /// The container runtime.
    pub runtime: Runtime,
    /// The host's files.
    pub files: Arc<dyn HostFiles>,
    /// The time of day.
    pub clock: Arc<dyn WallClock>,
    /// What is known of pods.
    pub pods: Arc<dyn PodStates>,
    /// Ends what may run.
    pub stop: Arc<dyn StopUnknown>,
    /// Records node events.
    pub events: Arc<dyn NodeEvents>,
    /// Where logs lie.
    pub logs: LogLayout,
    /// How much is kept.
    pub policy: ContainerPolicy,
    /// What is being removed: one of these for all who remove containers of this node.
    pub removals: Removals,
    /// Catches panics in the work for single pods.
    pub panics: PanicGuard,
}

/// A part of a pass that could not be made. What goes wrong with a single thing is none.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// Containers or sandboxes could not be listed.
    #[error("failed to list {0}")]
    List(&'static str, #[source] RuntimeError),
    /// The directory of logs could not be read.
    #[error("failed to read podLogsDirectory")]
    ReadLogs(#[source] FileError),
    /// One removal after the other found no runtime.
    #[error("the container runtime is away, the rest is left to the next pass: {0}")]
    RuntimeAway(String),
}

impl PassError {
    /// The message of the event that reports it. For a failed list it is the runtime's error, as upstream's.
    pub(crate) fn event_message(&self) -> String {
        match self {
            Self::List(_, error) => error.rpc_text(),
            Self::ReadLogs(_) | Self::RuntimeAway(_) => Chain(self).to_string(),
        }
    }
}

/// What the next pass would do, as far as everything could be looked at.
#[derive(Debug)]
pub struct Planned {
    /// All that was looked at.
    pub plan: Plan,
    /// What could not be.
    pub problems: Vec<PassError>,
}

/// Something that a pass did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What was decided.
    pub verdict: Verdict,
    /// Why it is there all the same, if it is.
    pub outcome: Result<(), Stays>,
}

/// Why something stays that was to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stays {
    /// A rule keeps it by now.
    Kept(&'static str),
    /// It could not be removed.
    Failed(String),
    /// There is no runtime that could remove it.
    RuntimeAway(String),
}

/// What a pass came to.
#[derive(Debug, Default)]
pub struct Report {
    /// What became of things, by what they were.
    pub kinds: BTreeMap<&'static str, Tally>,
    /// The parts of it that could not be made.
    pub problems: Vec<PassError>,
}

/// What became of things of a kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// So many were removed.
    pub removed: u64,
    /// So many could not be.
    pub failed: u64,
    /// So many were to go and stay by another rule.
    pub kept: u64,
}

impl Report {
    fn count(&mut self, step: &Step) {
        let tally = self.kinds.entry(step.verdict.subject.kind()).or_default();
        match step.outcome {
            Ok(()) => tally.removed += 1,
            Err(Stays::Kept(_)) => tally.kept += 1,
            Err(Stays::Failed(_) | Stays::RuntimeAway(_)) => tally.failed += 1,
        }
    }

    /// How much it removed.
    pub fn removed(&self) -> u64 {
        self.kinds.values().map(|tally| tally.removed).sum()
    }

    /// How much it could not remove.
    pub fn failed(&self) -> u64 {
        self.kinds.values().map(|tally| tally.failed).sum()
    }

    /// Whether all that was to go has gone, as far as everything could be looked at: until something
    /// happens, another pass has nothing to do.
    fn is_complete(&self) -> bool {
        let gone = |tally: &Tally| tally.failed + tally.kept == 0;
        self.problems.is_empty() && self.kinds.values().all(gone)
    }
}

/// A pass under way.
#[derive(Debug)]
pub struct Pass {
    /// The steps of the pass, as they happen. A slow reader misses steps; the report counts all. Closed at the
    /// end of the pass.
    pub steps: mpsc::Receiver<Step>,
    /// What it came to; an error when the agent stops first.
    pub report: oneshot::Receiver<Report>,
}

/// How many steps are kept for a slow reader.
const STEPS: usize = 1024;

/// Asks things of the collector.
#[derive(Debug, Clone)]
pub struct ContainerGc {
    shared: Arc<Shared>,
    /// Read by the task; closed when it ends.
    requests: mpsc::Sender<Request>,
}

#[derive(Debug)]
struct Shared {
    parts: ContainerGcParts,
    /// Pods whose remains may all go: added to by [`ContainerGc::pod_is_removable`], taken by the task.
    /// Never held across an await.
    removable: Mutex<BTreeSet<PodUid>>,
    /// Rung whenever a pod is added.
    bell: Notify,
    /// Notified when a regular pass is due early.
    now: Notify,
    /// Pods that may exceed caps before the next pass. Written when pods change, read by the task. Never held
    /// across an await.
    early: Mutex<early::Early>,
    /// Notified when `early` may have grown.
    early_bell: Notify,
    /// Changes since the last regular pass. Written by callers, taken by the task. Never held across an
    /// await.
    changed: Mutex<Changed>,
}

/// What a regular pass should look at.
#[derive(Debug, Default)]
struct Changed {
    /// Everything.
    all: bool,
    /// The directories of logs and links.
    files: bool,
    /// These pods.
    pods: BTreeSet<PodUid>,
}

#[derive(Debug)]
struct Request {
    /// Whether pods that have ended and still exist keep nothing either.
    aggressive: bool,
    steps: mpsc::Sender<Step>,
    report: oneshot::Sender<Report>,
}

/// The collector and the task that does its work.
pub fn container_gc(parts: ContainerGcParts) -> (ContainerGcTask, ContainerGc) {
    let (sender, requests) = mpsc::channel(4);
    let shared = Arc::new(Shared {
        parts,
        removable: Mutex::default(),
        bell: Notify::new(),
        now: Notify::new(),
        early: Mutex::default(),
        early_bell: Notify::new(),
        changed: Mutex::default(),
    });
    let task = ContainerGcTask::new(Arc::clone(&shared), requests);
    (task, ContainerGc { shared, requests: sender })
}

impl ContainerGc {
    /// What the next pass would remove and keep. Looks, and changes nothing; that pass then looks where this
    /// found something.
    pub async fn plan(&self) -> Planned {
        let survey = survey::all(&self.shared.parts, false, &mut ExitTimes::new()).await;
        // No event reports a log that was removed alone and left a dangling link; this plan has found it.
        if survey.logs.iter().chain(&survey.links).any(|item| item.fate == Fate::Remove) {
            self.shared.changed().files = true;
        }
        survey.planned(&self.shared.parts)
    }

    /// Makes a pass now, after the one that is under way.
    pub async fn run_now(&self) -> Pass {
        self.request(false).await
    }

    /// Removes all that is dead of pods that have ended, whether or not they still exist: the node needs
    /// room. Logs of pods that still exist stay.
    pub async fn delete_all_unused(&self) -> Pass {
        tracing::info!("deleting all unused containers");
        self.request(true).await
    }

    /// Says that all that is left of a pod may go, so that it goes at once.
    pub fn pod_is_removable(&self, uid: &PodUid) {
        self.shared.removable().insert(uid.clone());
        self.shared.bell.notify_one();
    }

    /// Says that something happened to a pod, so that the next regular pass looks at it.
    pub fn pod_changed(&self, uid: &PodUid) {
        self.shared.changed().pods.insert(uid.clone());
    }

    /// Says that there is nothing of a pod that could go.
    pub fn pod_is_whole(&self, uid: &PodUid) {
        self.shared.changed().pods.remove(uid);
    }

    /// Says that more is known than before: everything is looked at, now and not in a minute.
    pub fn everything_changed(&self) {
        self.shared.changed().all = true;
        self.shared.now.notify_one();
    }

    async fn request(&self, aggressive: bool) -> Pass {
        let ((steps, reader), (report, done)) = (mpsc::channel(STEPS), oneshot::channel());
        let request = Request { aggressive, steps, report };
        // When the task has ended, the report says so.
        drop(self.requests.send(request).await);
        Pass { steps: reader, report: done }
    }
}

#[cfg(test)]
mod tests;

impl Shared {
    fn removable(&self) -> std::sync::MutexGuard<'_, BTreeSet<PodUid>> {
        self.removable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn early(&self) -> std::sync::MutexGuard<'_, early::Early> {
        self.early.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) -> std::sync::MutexGuard<'_, Changed> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
