//! Does what was decided for a pod.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::{Container, Pod};
use model::ids::{ContainerId, PodName, PodUid, SandboxId};
use model::labels;
use model::observed::{ContainerState, ContainerStatus, PodStatus};
use model::ports::clock::WallClock;
use model::ports::events::EventType::{self, Normal, Warning};
use model::ports::events::{Events, PodEvent};
use model::ports::files::{FileError, HostFiles};
use model::ports::runtime::Runtime;
use model::verdict::{Subject, Verdict};
use model::wanted::SandboxConfig;
use podspec::view;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::container::container_config;
use crate::decide::{Backoff, BackoffLimits, ContainerStart, SandboxPlan, Turn, pod_actions};
use crate::error::{StartError, SyncError};
use crate::image::Images;
use crate::layout::{LogLayout, next_restart_count};
use crate::sandbox::sandbox_config;

/// What the executor works with.
#[derive(Debug)]
pub struct RuntimeParts {
    /// The container runtime.
    pub runtime: Arc<dyn Runtime>,
    /// The host's files: log directories and links.
    pub files: Arc<dyn HostFiles>,
    /// Whom people hear from.
    pub events: Arc<dyn Events>,
    /// The time of day.
    pub clock: Arc<dyn WallClock>,
    /// Where logs lie.
    pub logs: LogLayout,
    /// How long a container that keeps failing waits.
    pub restart_backoff: BackoffLimits,
}

/// Makes the runtime match pods. One for the node; pods are synced side by side, each by its worker.
#[derive(Debug)]
pub struct PodRuntime {
    pub(crate) parts: RuntimeParts,
    images: Images,
    /// Waits of containers that keep failing. Never held across an await.
    restarts: Mutex<Backoff<RestartKey>>,
}

/// What a restart's wait belongs to: another image is another try.
type RestartKey = (PodUid, String, String);

/// Where containers are started, and what ends the wait for them.
struct Home<'a> {
    sandbox: &'a SandboxId,
    config: &'a SandboxConfig,
    cancel: &'a CancellationToken,
}

/// Says what happens to a container.
pub(crate) struct Reporter<'a> {
    events: &'a dyn Events,
    uid: PodUid,
    pod: PodName,
    field_path: Arc<str>,
}

impl Reporter<'_> {
    pub(crate) fn event(&self, kind: EventType, reason: &'static str, message: String) {
        self.events.record(PodEvent {
            pod_uid: self.uid.clone(),
            pod: self.pod.clone(),
            field_path: Arc::clone(&self.field_path),
            kind,
            reason,
            message,
        });
    }
}

impl PodRuntime {
    /// An executor with nothing remembered.
    pub fn new(parts: RuntimeParts) -> Self {
        let restarts = Mutex::new(Backoff::new(parts.restart_backoff));
        Self { parts, images: Images::new(), restarts }
    }

    pub(crate) fn reporter(&self, pod: &Pod, container: &str) -> Reporter<'_> {
        let field_path = match container {
            "" => "".into(),
            name => format!("spec.containers{{{name}}}").into(),
        };
        let (uid, pod) = (view::uid(pod), view::pod_name(pod));
        Reporter { events: &*self.parts.events, uid, pod, field_path }
    }

    /// Does what the pod needs; answers whether there was anything to do. `cancel` says that the pod is
    /// to end: then nothing is waited for that may take for ever.
    pub async fn sync(
        &self,
        pod: &Pod,
        status: &PodStatus,
        cancel: &CancellationToken,
    ) -> Result<bool, SyncError> {
        let actions = pod_actions(pod, status);
        if actions.is_nothing() {
            return Ok(false);
        }
        if let SandboxPlan::Create { replaces: true, .. } = actions.sandbox {
            let message = "Pod sandbox changed, it will be killed and re-created.";
            self.reporter(pod, "").event(Normal, "SandboxChanged", message.to_owned());
        }
        if let Some(why) = actions.kill_pod {
            info!(pod = %view::pod_name(pod), uid = %status.uid, %why, "stopping what is left of a pod");
            self.kill(pod, status, None).await?;
        }
        for kill in &actions.kill {
            self.kill_container(pod, kill).await?;
        }
        let (sandbox, config) = match actions.sandbox {
            SandboxPlan::None => return Ok(true),
            SandboxPlan::Keep(id) => {
                let attempt = status.sandboxes.first().map_or(0, |sandbox| sandbox.attempt);
                (id, sandbox_config(pod, attempt, &self.parts.logs))
            }
            SandboxPlan::Create { attempt, .. } => self.create_sandbox(pod, attempt).await?,
        };
        let home = Home { sandbox: &sandbox, config: &config, cancel };
        self.start_containers(pod, status, &home, &actions.start).await?;
        Ok(true)
    }

    async fn create_sandbox(
        &self,
        pod: &Pod,
        attempt: u32,
    ) -> Result<(SandboxId, SandboxConfig), SyncError> {
        let config = sandbox_config(pod, attempt, &self.parts.logs);
        let logs = LogLayout::pod_directory_name(&config.pod, &config.pod_uid);
        self.create_log_directory(Path::new(&logs)).await.map_err(SyncError::LogDirectory)?;
        match self.parts.runtime.run_pod_sandbox(&config).await {
            Ok(id) => {
                info!(pod = %config.pod, uid = %config.pod_uid, sandbox = %id, attempt, "sandbox runs");
                Ok((id, config))
            }
            Err(source) => {
                let message = format!("Failed to create pod sandbox: {}", source.message);
                self.reporter(pod, "").event(Warning, "FailedCreatePodSandBox", message);
                Err(SyncError::CreateSandbox(source))
            }
        }
    }

    /// Starts containers one after the other; one that fails does not keep the next from starting.
    async fn start_containers(
        &self,
        pod: &Pod,
        status: &PodStatus,
        home: &Home<'_>,
        starts: &[ContainerStart],
    ) -> Result<(), SyncError> {
        let mut failed = Vec::new();
        for start in starts {
            let container = &view::containers(pod)[start.index];
            let latest = status.latest(&container.name);
            let report = self.reporter(pod, &container.name);
            let name = view::pod_name(pod);
            let started = match self.wait_its_turn(container, status) {
                Ok(()) => self.start(pod, container, latest, home).await,
                Err(error) => Err(error),
            };
            match started {
                Ok(id) => {
                    info!(pod = %name, uid = %status.uid, container = container.name, %id, why = %start.why, "container runs");
                }
                Err(error) => {
                    if matches!(error, StartError::BackOff { .. }) {
                        let uid = &status.uid;
                        let message = format!(
                            "Back-off restarting failed container {} in pod {}_{}({uid})",
                            container.name, name.name, name.namespace
                        );
                        report.event(Warning, "BackOff", message);
                    } else {
                        report.event(Warning, "Failed", format!("Error: {}", error.label()));
                    }
                    failed.push((container.name.clone(), error));
                }
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(SyncError::StartContainers(failed)) }
    }

    async fn start(
        &self,
        pod: &Pod,
        container: &Container,
        latest: Option<&ContainerStatus>,
        home: &Home<'_>,
    ) -> Result<ContainerId, StartError> {
        let Home { sandbox, config: sandbox_config, cancel } = *home;
        let report = self.reporter(pod, &container.name);
        let uid = &sandbox_config.pod_uid;
        // Only this step may be broken off: nothing is half made by it, and it may take for ever.
        let image = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(StartError::PodEnds),
            image = self.images.ensure(&self.parts, uid, container, &report) => image?,
        };
        let logs = Path::new(&LogLayout::pod_directory_name(&sandbox_config.pod, uid))
            .join(&container.name);
        self.create_log_directory(&logs).await.map_err(StartError::LogDirectory)?;
        let restarts = self.restart_count(latest, &self.parts.logs.pod_logs.join(&logs)).await;
        if let Some(unused) = latest.filter(|latest| latest.state == ContainerState::Created) {
            self.remove_unused(unused).await?;
        }
        let config =
            container_config(pod, container, restarts, image).map_err(StartError::Config)?;
        let runtime = &self.parts.runtime;
        let id = runtime
            .create_container(sandbox, &config, sandbox_config)
            .await
            .map_err(StartError::Create)?;
        report.event(Normal, "Created", "Container created".to_owned());
        runtime.start_container(&id).await.map_err(StartError::Run)?;
        report.event(Normal, "Started", "Container started".to_owned());
        self.link_log(sandbox_config, &config.log_path, &container.name, &id).await;
        Ok(id)
    }

    async fn create_log_directory(&self, below: &Path) -> Result<(), FileError> {
        self.parts.files.create_directory(&self.parts.logs.pod_logs, below, 0o755).await
    }

    /// Only a container that ended waits: one that was killed for a change, or whose sandbox died
    /// with it still running, did not fail.
    fn wait_its_turn(&self, container: &Container, status: &PodStatus) -> Result<(), StartError> {
        let ended = status.latest_ended(&container.name);
        let Some(finished) = ended.and_then(|ended| ended.finished_at) else { return Ok(()) };
        let image = container.image.clone().unwrap_or_default();
        let key = (status.uid.clone(), container.name.clone(), image);
        let now = self.parts.clock.now();
        let mut restarts = self.restarts.lock().unwrap_or_else(PoisonError::into_inner);
        restarts.expire(now);
        match restarts.turn(&key, finished, now) {
            Turn::Now => Ok(()),
            Turn::NotBefore { at, delay } => Err(StartError::BackOff { delay, until: at }),
        }
    }

    /// A container that was made and never started, because the agent or the runtime died in between,
    /// makes way for the one that takes its place and its number.
    async fn remove_unused(&self, unused: &ContainerStatus) -> Result<(), StartError> {
        let verdict = Verdict {
            subject: Subject::Container(unused.id.clone()),
            rule: "never-started",
            inputs: format!("container {} was created at {}", unused.name, unused.created_at),
            at: self.parts.clock.now(),
        };
        info!(%verdict, "removing");
        match self.parts.runtime.remove_container(&verdict).await {
            Err(error) if !error.is_not_found() => Err(StartError::RemoveUnused(error)),
            _ => Ok(()),
        }
    }

    /// One more than the latest instance has that was started; the logs tell when the runtime has
    /// forgotten all.
    async fn restart_count(&self, latest: Option<&ContainerStatus>, logs: &Path) -> u32 {
        if let Some(latest) = latest {
            let written = latest.annotations.get(labels::CONTAINER_RESTART_COUNT);
            let count = written.and_then(|written| written.parse::<u32>().ok()).unwrap_or(0);
            let unused = latest.state == ContainerState::Created;
            return if unused { count } else { count.saturating_add(1) };
        }
        match self.parts.files.list(logs).await {
            Ok(names) => next_restart_count(&names),
            Err(error) => {
                warn!(%error, "cannot count the logs of a container; counting from 0");
                0
            }
        }
    }

    /// Log collectors look for logs by container. Failing that is no reason to fail the container.
    async fn link_log(&self, sandbox: &SandboxConfig, log: &str, name: &str, id: &ContainerId) {
        let target = Path::new(&sandbox.log_directory).join(log);
        let link = self.parts.logs.container_link(&sandbox.pod, name, id);
        if let Err(error) = self.parts.files.link(&target, &link).await {
            warn!(pod = %sandbox.pod, container = name, %error, "cannot link the log of a container");
        }
    }
}
