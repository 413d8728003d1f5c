//! The probe manager, the interface for other parts of the agent.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use model::checkpoint::Checkpoint;
use model::ids::PodUid;
use model::panics::PanicGuard;
use model::ports::clock::WallClock;
use model::ports::events::Events;
use model::ports::files::HostFiles;
use model::ports::probes::ProbeClient;
use model::ports::runtime::ContainerService;
use model::probe::{PodProbes, ProbeReport};
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::warn;

use crate::attempt::Target;
use crate::decide::worker::AgentStart;
use crate::metrics::Metrics;
use crate::saved::{FILE, FORMAT, SavedProbe};
use crate::state::{Moment, State};

/// The ports and settings of a [`ProbeManager`].
#[derive(Debug)]
pub struct ManagerParts {
    /// Runs commands in containers.
    pub containers: Arc<dyn ContainerService>,
    /// Sends requests to containers.
    pub network: Arc<dyn ProbeClient>,
    /// Records events.
    pub events: Arc<dyn Events>,
    /// The wall clock.
    pub clock: Arc<dyn WallClock>,
    /// Keeps results over a restart.
    pub files: Arc<dyn HostFiles>,
    /// The directory for them.
    pub state: PathBuf,
    /// Counts and times attempts.
    pub metrics: Metrics,
    /// Catches panics in attempts.
    pub panics: PanicGuard,
    /// Whether containers that already run count as not started and not ready until their probes pass again.
    pub resets_on_restart: bool,
    /// Returns a random number from zero to one.
    pub jitter: fn() -> f64,
}

/// The probe manager. Clones share the state.
#[derive(Debug, Clone)]
pub struct ProbeManager {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) parts: ManagerParts,
    pub(crate) checkpoint: Checkpoint<Vec<SavedProbe>>,
    /// Never held across an await.
    state: Mutex<State>,
    /// Wakes the task: the schedule changed.
    pub(crate) wake: Notify,
    /// A result changed.
    pub(crate) changed: Notify,
    /// Notified when there is something to save.
    pub(crate) unsaved: Notify,
}

impl ProbeManager {
    /// A manager of no probes.
    pub fn new(parts: ManagerParts) -> Self {
        let start = AgentStart { at: parts.clock.now(), resets: parts.resets_on_restart };
        let state = Mutex::new(State::new(start, Instant::now()));
        let files = Arc::clone(&parts.files);
        let checkpoint = Checkpoint::new(files, parts.state.join(FILE), FORMAT);
        let (wake, changed, unsaved) = Default::default();
        Self { shared: Arc::new(Shared { parts, checkpoint, state, wake, changed, unsaved }) }
    }

    /// Reads the results of an earlier agent. Without them, statuses keep what the API server shows.
    pub async fn load(&self) {
        match self.shared.checkpoint.read().await {
            Ok(saved) => self.shared.state().load(saved.unwrap_or_default()),
            Err(error) => {
                let path = self.shared.checkpoint.path().display();
                warn!(%path, %error, "Cannot read probe results of an earlier run, starting without them");
            }
        }
    }

    /// A pod was synced: its probes begin. A pod whose probes run already keeps them, regardless of its new
    /// specification says, like upstream.
    pub fn add_pod(&self, pod: &Arc<Pod>) {
        self.shared.state().add_pod(pod);
    }

    /// The status of a pod was published.
    pub fn observe(&self, uid: &PodUid, status: &Arc<PodStatus>) {
        let moment = self.shared.moment();
        let mut state = self.shared.state();
        if state.observe(uid, status, moment) {
            let is_unsaved = state.is_unsaved();
            drop(state);
            self.shared.wake.notify_one();
            if is_unsaved {
                self.shared.unsaved.notify_one();
            }
        }
    }

    /// A pod terminates: its liveness and startup probes end, its readiness probes continue.
    pub fn stop_liveness_and_startup(&self, uid: &PodUid) {
        self.shared.remove(|state| state.stop_liveness_and_startup(uid));
    }

    /// Stops the probes of a pod, because all its containers have terminated.
    pub fn remove_pod(&self, uid: &PodUid) {
        self.shared.remove(|state| state.remove_pod(uid));
    }

    /// Ends the probes of all other pods.
    pub fn retain(&self, is_kept: impl Fn(&PodUid) -> bool) {
        self.shared.remove(|state| state.retain(is_kept));
    }

    /// The results of a pod.
    pub fn results(&self, uid: &PodUid) -> PodProbes {
        self.shared.state().results(uid)
    }

    /// The state of a pod's probes, for display.
    pub fn reports(&self, uid: &PodUid) -> Vec<ProbeReport> {
        self.shared.state().reports(uid)
    }

    /// Waits for pods with results that changed. One caller at a time.
    pub async fn changed(&self) -> Vec<PodUid> {
        loop {
            let changed = self.shared.state().take_changed();
            if !changed.is_empty() {
                return changed.into_iter().collect();
            }
            self.shared.changed.notified().await;
        }
    }
}

impl Shared {
    /// A panic while the lock was held leaves a state that is valid: each step changes one worker.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends probes, and removes their metrics: with the lock held, so that no attempt counts afterwards.
    fn remove(&self, remove: impl FnOnce(&mut State) -> Vec<Arc<Target>>) {
        let mut state = self.state();
        for target in remove(&mut state) {
            self.parts.metrics.remove(target.series());
        }
        drop(state);
        self.unsaved.notify_one();
    }

    pub(crate) fn moment(&self) -> Moment {
        let jitter = (self.parts.jitter)();
        Moment { now: self.parts.clock.now(), instant: Instant::now(), jitter }
    }
}
