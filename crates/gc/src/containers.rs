//! Garbage collection of containers, sandboxes and logs.

mod act;
mod cap_watch;
mod deletor;
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

/// Stops a container whose state the runtime reports as unknown, of a pod without a worker. All that is known
/// of the pod are the container's labels and annotations.
#[async_trait]
pub trait StopUnknown: Debug + Send + Sync {
    /// Stops the container, with its preStop hook and the grace period of its annotations. A pass that stops
    /// waiting drops this; see [`background_stops`].
    async fn stop(&self, container: &Container, status: &ContainerStatus) -> Result<(), String>;
}

/// The dependencies of container collection.
#[derive(Debug, Clone)]
pub struct ContainerGcParts {
    /// The container runtime.
    pub runtime: Runtime,
    /// The host's files.
    pub files: Arc<dyn HostFiles>,
    /// The wall clock.
    pub clock: Arc<dyn WallClock>,
    /// The states of pods.
    pub pods: Arc<dyn PodStates>,
    /// Stops containers that may run.
    pub stop: Arc<dyn StopUnknown>,
    /// Records node events.
    pub events: Arc<dyn NodeEvents>,
    /// The paths of logs.
    pub logs: LogLayout,
    /// How many dead containers are kept.
    pub policy: ContainerPolicy,
    /// Removals in progress, shared by all that remove containers of this node.
    pub removals: Removals,
    /// Catches panics in the work for single pods.
    pub panics: PanicGuard,
}

/// A failed part of a pass. Failures of single objects are not part of it.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// Containers or sandboxes could not be listed.
    #[error("failed to list {0}")]
    List(&'static str, #[source] RuntimeError),
    /// The directory of logs could not be read.
    #[error("failed to read podLogsDirectory")]
    ReadLogs(#[source] FileError),
    /// Several consecutive removals could not reach the runtime.
    #[error("the container runtime is unavailable, the next pass does the rest: {0}")]
    RuntimeAway(String),
}

impl PassError {
    /// The message of the event that reports it. For a failed list it is the runtime's error, like upstream.
    pub(crate) fn event_message(&self) -> String {
        match self {
            Self::List(_, error) => error.rpc_text(),
            Self::ReadLogs(_) | Self::RuntimeAway(_) => Chain(self).to_string(),
        }
    }
}

/// What the next pass would do. Lists that failed are reported as problems.
#[derive(Debug)]
pub struct Planned {
    /// All items.
    pub plan: Plan,
    /// The parts that failed.
    pub problems: Vec<PassError>,
}

/// A step of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The decision.
    pub verdict: Verdict,
    /// Why the object was not removed, if it was not.
    pub outcome: Result<(), KeepReason>,
}

/// Why an object stays despite its verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeepReason {
    /// A rule keeps it now.
    Kept(&'static str),
    /// It could not be removed.
    Failed(String),
    /// The runtime is unavailable.
    RuntimeAway(String),
}

/// The result of a pass.
#[derive(Debug, Default)]
pub struct Report {
    /// The results by kind of object.
    pub kinds: BTreeMap<&'static str, Tally>,
    /// The parts that failed.
    pub problems: Vec<PassError>,
}

/// The results of one kind of object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Removed objects.
    pub removed: u64,
    /// Objects that could not be removed.
    pub failed: u64,
    /// Objects that were to be removed and were kept by another rule.
    pub kept: u64,
}

impl Report {
    fn count(&mut self, step: &Step) {
        let tally = self.kinds.entry(step.verdict.subject.kind()).or_default();
        match step.outcome {
            Ok(()) => tally.removed += 1,
            Err(KeepReason::Kept(_)) => tally.kept += 1,
            Err(KeepReason::Failed(_) | KeepReason::RuntimeAway(_)) => tally.failed += 1,
        }
    }

    /// The number of removed objects.
    pub fn removed(&self) -> u64 {
        self.kinds.values().map(|tally| tally.removed).sum()
    }

    /// The number of objects that could not be removed.
    pub fn failed(&self) -> u64 {
        self.kinds.values().map(|tally| tally.failed).sum()
    }

    /// Whether all planned removals are done, as far as everything could be listed. Then the next pass has
    /// nothing to do until something changes.
    fn is_complete(&self) -> bool {
        let gone = |tally: &Tally| tally.failed + tally.kept == 0;
        self.problems.is_empty() && self.kinds.values().all(gone)
    }
}

/// A pass in progress.
#[derive(Debug)]
pub struct Pass {
    /// The steps of the pass, as they happen. A slow reader misses steps; the report counts all. Closed at the
    /// end of the pass.
    pub steps: mpsc::Receiver<Step>,
    /// The result; an error if the agent stops first.
    pub report: oneshot::Receiver<Report>,
}

/// How many steps are kept for a slow reader.
const STEPS: usize = 1024;

/// A handle to the collector.
#[derive(Debug, Clone)]
pub struct ContainerGc {
    shared: Arc<Shared>,
    /// Read by the task; closed when it ends.
    requests: mpsc::Sender<Request>,
}

#[derive(Debug)]
struct Shared {
    parts: ContainerGcParts,
    /// Pods whose objects may all be removed. Added by [`ContainerGc::pod_is_removable`], taken by the task.
    /// Never held across an await.
    removable: Mutex<BTreeSet<PodUid>>,
    /// Notified when a pod is added.
    bell: Notify,
    /// Notified when a regular pass is due early.
    now: Notify,
    /// Pods that may exceed caps before the next pass. Written when pods change, read by the task. Never held
    /// across an await.
    early: Mutex<cap_watch::CapWatch>,
    /// Notified when `early` may have grown.
    early_bell: Notify,
    /// Changes since the last regular pass. Written by callers, taken by the task. Never held across an
    /// await.
    changed: Mutex<Changed>,
}

/// What a regular pass lists.
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
    /// Whether terminated pods that still exist keep nothing either.
    aggressive: bool,
    steps: mpsc::Sender<Step>,
    report: oneshot::Sender<Report>,
}

/// Returns the collector and the task that runs its passes.
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
    /// What the next pass would remove and keep. Changes nothing. If it finds something to remove, the next
    /// pass lists that place.
    pub async fn plan(&self) -> Planned {
        let survey = survey::all(&self.shared.parts, false, &mut ExitTimes::new()).await;
        // No event reports that a log was removed without its link; this plan has found the dangling
        // link.
        if survey.logs.iter().chain(&survey.links).any(|item| item.fate == Fate::Remove) {
            self.shared.changed().files = true;
        }
        survey.planned(&self.shared.parts)
    }

    /// Makes a pass now, after the one in progress.
    pub async fn run_now(&self) -> Pass {
        self.request(false).await
    }

    /// Removes all dead containers and sandboxes of terminated pods, even of those that still exist: the node
    /// is under disk pressure. Logs of existing pods stay.
    pub async fn delete_all_unused(&self) -> Pass {
        tracing::info!("Deleting all unused containers");
        self.request(true).await
    }

    /// Reports that all objects of a pod may be removed; they are removed at once.
    pub fn pod_is_removable(&self, uid: &PodUid) {
        self.shared.removable().insert(uid.clone());
        self.shared.bell.notify_one();
    }

    /// Reports a change of a pod; the next regular pass lists it.
    pub fn pod_changed(&self, uid: &PodUid) {
        self.shared.changed().pods.insert(uid.clone());
    }

    /// Reports that a pod has nothing to remove.
    pub fn pod_is_whole(&self, uid: &PodUid) {
        self.shared.changed().pods.remove(uid);
    }

    /// Reports that pod states changed: a pass over everything is made now.
    pub fn everything_changed(&self) {
        self.shared.changed().all = true;
        self.shared.now.notify_one();
    }

    async fn request(&self, aggressive: bool) -> Pass {
        let ((steps, reader), (report, done)) = (mpsc::channel(STEPS), oneshot::channel());
        let request = Request { aggressive, steps, report };
        // If the task has ended, the report channel is closed.
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

    fn early(&self) -> std::sync::MutexGuard<'_, cap_watch::CapWatch> {
        self.early.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) -> std::sync::MutexGuard<'_, Changed> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
