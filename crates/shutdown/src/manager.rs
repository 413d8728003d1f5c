//! Watches for shutdowns, and terminates pods before they go on.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use model::chain::Chain;
use model::ports::clock::WallClock;
use model::ports::events::{EventType, NodeEvent, NodeEvents};
use model::ports::files::{FileError, HostFiles};
use model::ports::login::{DelayLock, LoginError, LoginManager};
use podspec::view;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::decide::{PhasePlan, Phases, PlannedPod, SavedState, elapsed};
use crate::metrics::ShutdownMetrics;

/// The state file below the root directory, upstream's.
const STATE: &str = "graceful_node_shutdown_state";
/// More than the state takes.
const STATE_LIMIT: u64 = 4096;

/// The configuration of the login manager, and the agent's part of it.
const LOGIND_ROOT: &str = "/etc/systemd";
const LOGIND_DIRECTORY: &str = "logind.conf.d";
const LOGIND_FILE: &str = "/etc/systemd/logind.conf.d/99-kubelet.conf";

/// How often the login manager is asked whether it uses the new configuration; each wait is twice as long.
const ATTEMPTS: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// The wait before the watch begins again; it doubles with each failure.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_mins(1);

/// How long the end of the shutdown waits for the last statuses.
const LAST_STATUSES: Duration = Duration::from_secs(2);

/// The pods of the node, and the node itself.
#[async_trait]
pub trait ShutdownPods: Debug + Send + Sync {
    /// Sets whether the node shuts down: then it is not ready, and admits no pod.
    async fn set_shutting_down(&self, shuts_down: bool);

    /// The pods that run.
    async fn active(&self) -> Vec<Arc<Pod>>;

    /// Terminates a pod that fails by this, and waits until nothing of it runs. The termination goes on if the wait is
    /// given up.
    async fn terminate(&self, pod: &PlannedPod);

    /// Waits until the volumes of terminated pods are unmounted and their statuses were sent. The wait for the latter
    /// is short: the API server may be away.
    async fn settled(&self, pods: &[Arc<Pod>]);
}

/// What the manager needs.
#[derive(Debug)]
pub struct ShutdownParts {
    /// The login manager.
    pub login: Arc<dyn LoginManager>,
    /// The files of the host.
    pub files: Arc<dyn HostFiles>,
    /// The root directory of the agent.
    pub root_dir: PathBuf,
    /// The pods of the node.
    pub pods: Arc<dyn ShutdownPods>,
    /// Receives events of the node.
    pub node_events: Arc<dyn NodeEvents>,
    /// The time of day.
    pub clock: Arc<dyn WallClock>,
    /// The times of shutdowns.
    pub metrics: ShutdownMetrics,
}

/// Why shutdowns are not delayed.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    /// A request failed.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// The configuration cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The configuration has no effect.
    #[error("the login manager delays a shutdown by {longest:?} at most, not by {wanted:?}")]
    TooShort { longest: Duration, wanted: Duration },
    /// The connection is lost.
    #[error("the watch for shutdowns was lost")]
    Lost,
}

/// Delays shutdowns of the machine until pods have ended.
#[derive(Debug)]
pub struct ShutdownManager {
    parts: ShutdownParts,
    phases: Phases,
    saved: SavedState,
    /// Delays the next shutdown.
    lock: Option<Box<dyn DelayLock>>,
    /// Whether the machine shuts down, and its pods were terminated.
    is_down: bool,
}

impl ShutdownManager {
    /// A manager with these phases, of which there must be some.
    pub fn new(parts: ShutdownParts, phases: Phases) -> Self {
        Self { parts, phases, saved: SavedState::default(), lock: None, is_down: false }
    }

    /// Runs until it is stopped.
    pub async fn run(mut self, stop: CancellationToken) {
        stop.run_until_cancelled(self.keep_watching()).await;
    }

    async fn keep_watching(&mut self) {
        self.load().await;
        let mut wait = RETRY;
        loop {
            match self.watch().await {
                WatchError::Lost => {
                    debug!("Watch for shutdowns was lost, restarting it");
                    wait = RETRY;
                }
                error => {
                    let error = Chain(&error);
                    warn!(%error, ?wait, "Cannot delay shutdowns of the node, retrying");
                }
            }
            sleep(wait).await;
            wait = (wait * 2).min(LONGEST_RETRY);
        }
    }

    /// Watches until an error.
    async fn watch(&mut self) -> WatchError {
        let Err(error) = self.try_watch().await else { return WatchError::Lost };
        error
    }

    async fn try_watch(&mut self) -> Result<(), WatchError> {
        let login = Arc::clone(&self.parts.login);
        // Before its state is read, so that no shutdown falls between the two.
        let mut watch = login.watch().await?;
        if login.is_shutting_down().await? {
            // A lock that an earlier agent left delays it; the login manager gives no new one.
            if self.lock.is_none() {
                self.lock = login.delay_shutdown().await.ok();
            }
            self.begin().await;
        } else {
            self.end().await?;
            self.check_delay().await?;
            if self.lock.is_none() {
                self.lock = Some(login.delay_shutdown().await?);
            }
        }
        info!(phases = ?self.phases, "Shutdowns of the node are delayed until pods have ended");
        while let Some(begins) = watch.next().await {
            if begins {
                self.begin().await;
            } else {
                self.end().await?;
                self.lock = Some(login.delay_shutdown().await?);
            }
        }
        Ok(())
    }

    /// Makes sure that the login manager waits long enough.
    async fn check_delay(&self) -> Result<(), WatchError> {
        let (login, files) = (&self.parts.login, &self.parts.files);
        let wanted = self.phases.total();
        let mut longest = login.longest_delay().await?;
        if longest >= wanted {
            return Ok(());
        }
        info!(?longest, ?wanted, "Configuring the login manager to delay shutdowns for longer");
        let directory = Path::new(LOGIND_DIRECTORY);
        files.create_directory(Path::new(LOGIND_ROOT), directory, 0o755).await?;
        let seconds = wanted.as_secs();
        let content =
            format!("# Written by the node agent.\n[Login]\nInhibitDelayMaxSec={seconds}\n");
        files.overwrite(Path::new(LOGIND_FILE), content.as_bytes(), 0o644).await?;
        login.reload().await?;
        let mut wait = FIRST_WAIT;
        for _ in 0..ATTEMPTS {
            longest = login.longest_delay().await?;
            if longest >= wanted {
                return Ok(());
            }
            sleep(wait).await;
            wait *= 2;
        }
        Err(WatchError::TooShort { longest, wanted })
    }

    /// A shutdown begins: terminates all pods, and lets it go on.
    async fn begin(&mut self) {
        if std::mem::replace(&mut self.is_down, true) {
            return;
        }
        info!("Shutdown manager detected new shutdown event");
        self.record("Shutdown manager detected shutdown event");
        self.parts.pods.set_shutting_down(true).await;
        let spent = elapsed(self.saved, self.phases.total(), self.parts.clock.now());
        if spent.is_zero() {
            self.save(SavedState { start: Some(self.parts.clock.now()), end: None }).await;
        } else {
            info!(?spent, "Continuing the shutdown of an earlier agent");
            self.parts.metrics.set(self.saved);
        }
        let active = self.parts.pods.active().await;
        for plan in self.phases.plan(active.clone(), spent) {
            self.play(&plan).await;
        }
        if timeout(LAST_STATUSES, self.parts.pods.settled(&active)).await.is_err() {
            warn!("Node goes down before all volumes are unmounted and all statuses are sent");
        }
        self.save(SavedState { end: Some(self.parts.clock.now()), ..self.saved }).await;
        info!("Shutdown manager completed processing shutdown event, node will shutdown shortly");
        if let Some(lock) = self.lock.take() {
            lock.release();
        }
    }

    /// Terminates the pods of a phase.
    async fn play(&self, plan: &PhasePlan) {
        let (phase, pods) = (plan.phase, &self.parts.pods);
        let all: Vec<Arc<Pod>> = plan.pods.iter().map(|one| Arc::clone(&one.pod)).collect();
        for PlannedPod { pod, grace } in &plan.pods {
            info!(pod = %view::pod_name(pod), ?grace, "Shutdown manager killing pod");
        }
        let work = async {
            join_all(plan.pods.iter().map(|one| pods.terminate(one))).await;
            pods.settled(&all).await;
        };
        let (priority, time) = (phase.priority, phase.time);
        if timeout(time, work).await.is_ok() {
            info!(priority, "Pods of the phase have terminated");
        } else {
            warn!(priority, ?time, "Pods of the phase did not terminate in time");
        }
    }

    /// A shutdown was cancelled, or there was none.
    async fn end(&mut self) -> Result<(), WatchError> {
        if std::mem::replace(&mut self.is_down, false) {
            info!("Shutdown of the node was cancelled");
            self.record("Shutdown manager detected shutdown cancellation");
            self.parts.pods.set_shutting_down(false).await;
        }
        Ok(())
    }

    fn record(&self, message: &str) {
        let event =
            NodeEvent { kind: EventType::Normal, reason: "Shutdown", message: message.to_owned() };
        self.parts.node_events.record(event);
    }

    async fn load(&mut self) {
        let path = self.parts.root_dir.join(STATE);
        let saved = match self.parts.files.read(&path, STATE_LIMIT).await {
            Err(error) if error.is_not_found() => return,
            Err(error) => Err(Chain(&error).to_string()),
            Ok(content) => SavedState::parse(&content).map_err(|error| error.to_string()),
        };
        match saved {
            Ok(saved) => {
                self.saved = saved;
                self.parts.metrics.set(saved);
            }
            Err(error) => {
                warn!(error, path = %path.display(), "Cannot read the state of the last shutdown");
            }
        }
    }

    async fn save(&mut self, state: SavedState) {
        self.saved = state;
        self.parts.metrics.set(state);
        let path = self.parts.root_dir.join(STATE);
        if let Err(error) = self.parts.files.overwrite(&path, &state.content(), 0o644).await {
            warn!(error = %Chain(&error), "Cannot save the state of the shutdown");
        }
    }
}

#[cfg(test)]
#[path = "manager_tests.rs"]
mod tests;
