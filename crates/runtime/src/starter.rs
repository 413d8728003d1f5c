//! Starts containers.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};
use model::ids::{ContainerId, PodUid};
use model::observed::ContainerState;
use model::ports::clock::WallClock;
use model::ports::events::EventType::{Normal, Warning};
use model::ports::events::Events;
use model::ports::incidents::{Incident, IncidentKind, IncidentRecord};
use model::ports::runtime::{Code, ContainerService, RuntimeError};
use podspec::view;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::container_files::ContainerFiles;
use crate::create::{ContainerCreator, CreatedContainer};
use crate::decide::{
    Backoff, ContainerStart, PodActions, Restart, Role, SandboxPlan, StartReason, SyncContext,
    Turn, sleeps,
};
use crate::error::{StartError, SyncError};
use crate::hooks::{HookFailure, HookRunner, Hooked};
use crate::image::{EarlyLookup, ImageProvider, ImageRequest};
use crate::image_volumes::{self, mounted_images};
use crate::killer::PodKiller;
use crate::metrics::Metrics;
use crate::remover::ContainerRemover;
use crate::report::Reporter;
use crate::sandboxes::SandboxContext;
use crate::start_context::StartContext;
use crate::start_watch::{StartWatch, WatchedContainer};

/// How long a hook may still run after its container has exited.
const HOOK_TIME_AFTER_EXIT: Duration = Duration::from_secs(10);

/// The container to start.
fn container<'a>(pod: &'a Pod, start: &ContainerStart) -> Cow<'a, Container> {
    match start.role {
        Role::Regular => Cow::Borrowed(&view::containers(pod)[start.index]),
        Role::Init | Role::Sidecar => Cow::Borrowed(&view::init_containers(pod)[start.index]),
        Role::Ephemeral => Cow::Owned(view::ephemeral_containers(pod).swap_remove(start.index)),
    }
}

/// The key of a back-off: another image or other resources have their own.
pub(crate) type RestartKey = (PodUid, String, String, String);

/// Starts containers.
#[derive(Debug)]
pub(crate) struct ContainerStarter {
    pub(crate) containers: Arc<dyn ContainerService>,
    pub(crate) images: ImageProvider,
    pub(crate) creator: ContainerCreator,
    pub(crate) files: Arc<ContainerFiles>,
    /// The back-off of failing containers. Never held across an await.
    pub(crate) restarts: Mutex<Backoff<RestartKey>>,
    pub(crate) start_watch: StartWatch,
    pub(crate) hooks: Arc<HookRunner>,
    pub(crate) killer: Arc<PodKiller>,
    pub(crate) remover: Arc<ContainerRemover>,
    pub(crate) events: Arc<dyn Events>,
    pub(crate) incidents: Arc<dyn IncidentRecord>,
    pub(crate) clock: Arc<dyn WallClock>,
    pub(crate) metrics: Metrics,
}

/// A started container.
struct Started {
    id: ContainerId,
    /// Its restart count.
    count: u32,
    /// The back-off that it waited.
    waited: Option<Duration>,
}

/// The containers to start, and their sandbox.
pub(crate) struct StartRequest<'a> {
    pub(crate) sandbox: &'a SandboxContext,
    pub(crate) starts: &'a [ContainerStart],
    /// The early lookup of the image of the first container, if one was begun.
    pub(crate) early: Option<EarlyLookup>,
    /// Cancelled when the pod terminates.
    pub(crate) cancel: &'a CancellationToken,
}

impl ContainerStarter {
    fn reporter(&self, pod: &Pod, container: &str) -> Reporter<'_> {
        Reporter::of_container(&*self.events, pod, container)
    }

    /// Begins the lookup of the image of the first container during the creation of the sandbox.
    pub(crate) fn early_lookup(&self, pod: &Pod, actions: &PodActions) -> Option<EarlyLookup> {
        let first = actions.start.first()?;
        match actions.sandbox {
            SandboxPlan::Create { .. } => self.images.early_lookup(&container(pod, first)),
            SandboxPlan::Keep(_) | SandboxPlan::None => None,
        }
    }

    /// Starts containers in order. A failure does not prevent the next one from starting,
    /// unless it is an init container.
    pub(crate) async fn start_all(
        &self,
        context: &SyncContext<'_>,
        request: StartRequest<'_>,
    ) -> Result<(), SyncError> {
        let SyncContext { pod, status, .. } = *context;
        let StartRequest { sandbox, starts, mut early, cancel } = request;
        let mut failed = Vec::new();
        for start in starts {
            let container = container(pod, start);
            let role = start.role;
            let starting =
                StartContext { pod, container: &container, role, status, sandbox, cancel };
            let name = &container.name;
            match self.start_in_turn(&starting, early.take()).await {
                Ok(started) => {
                    self.record_restart(&starting, start.why, &started);
                    let (pod, id) = (view::pod_name(pod), &started.id);
                    info!(%pod, uid = %status.uid, container = name, %id, why = %start.why, "Container started");
                }
                Err(error) => {
                    self.report_failure(&starting, &error);
                    failed.push((name.clone(), error));
                    if start.role == Role::Init {
                        break;
                    }
                }
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(SyncError::StartContainers(failed)) }
    }

    fn report_failure(&self, starting: &StartContext<'_>, error: &StartError) {
        let report = self.reporter(starting.pod, &starting.container.name);
        match error {
            StartError::BackOff { container, pod, .. } => {
                let message =
                    format!("Back-off restarting failed container {container} in pod {pod}");
                report.event(Warning, "BackOff", message);
            }
            // Reported already, when the container was killed for it.
            StartError::PostStart { .. } => {}
            error if error.is_pod_ending_or_started() => {}
            error => report.event(Warning, "Failed", format!("Error: {}", error.event_message())),
        }
    }

    async fn start_in_turn(
        &self,
        starting: &StartContext<'_>,
        early: Option<EarlyLookup>,
    ) -> Result<Started, StartError> {
        let waited = self.wait_its_turn(starting)?;
        let metrics = &self.metrics;
        metrics.container_starts(starting.role);
        let started = self.start(starting, early).await;
        if let Err(error) = &started
            && !error.is_pod_ending_or_started()
        {
            metrics.container_did_not_start(starting.role, error.label());
        }
        let (id, count) = started?;
        Ok(Started { id, count, waited })
    }

    /// Records the start of a container that was started before.
    fn record_restart(&self, starting: &StartContext<'_>, why: StartReason, started: &Started) {
        let StartContext { pod, container, status, .. } = *starting;
        let ended = status.latest_ended(&container.name);
        let killed = ended.and_then(|ended| self.killer.killed.rule(&status.uid, &ended.id));
        let Started { count, waited, .. } = *started;
        let restart = Restart { why, ended, killed, count, waited };
        let Some((rule, detail)) = restart.cause() else { return };
        self.incidents.record_incident(Incident {
            kind: IncidentKind::Restart,
            pod: view::pod_name(pod),
            uid: status.uid.clone(),
            container: container.name.clone(),
            id: started.id.to_string(),
            rule: rule.into(),
            detail,
            at: None,
        });
    }

    async fn start(
        &self,
        starting: &StartContext<'_>,
        early: Option<EarlyLookup>,
    ) -> Result<(ContainerId, u32), StartError> {
        let StartContext { pod, container, sandbox, cancel, .. } = *starting;
        let report = self.reporter(pod, &container.name);
        // Claimed from before the lookup until the container exists: image GC must not remove it meanwhile.
        let image = container.image.as_deref().unwrap_or_default();
        let claim = self.images.claim(image);
        let policy = container.image_pull_policy.as_deref();
        let (sandbox_config, name) = (&sandbox.config, container.name.as_str());
        let request = ImageRequest {
            pod,
            sandbox: sandbox_config,
            container: name,
            image,
            policy,
            early,
            cancel,
        };
        // Only this step is cancelled when the pod terminates: it leaves nothing half done, and may take forever.
        let volumes = image_volumes::ensure(&self.images, &*self.events, starting).await?;
        let mut image = self.images.ensure(request, &report).await?;
        let resolved = std::mem::take(&mut image.resolved);
        let made = self.creator.adopt_or_create(starting, image, &volumes).await;
        let made = self.count_image_volumes(starting, made)?;
        drop(volumes);
        // A container that exits before the next image GC has used it too.
        claim.used(self.clock.now());
        drop(resolved);
        let watched = self.start_watch.watch(&made.id);
        if !made.runs {
            report.event(Normal, "Created", "Container created".to_owned());
            if let Err(error) = self.containers.start_container(&made.id).await
                && !self.runs_after_all(&made.id, &error).await
            {
                self.give_up(starting, &made).await;
                let (container, id) = (container.name.clone(), made.id);
                return Err(StartError::Run { container, id, source: error });
            }
        }
        report.event(Normal, "Started", "Container started".to_owned());
        self.files.link_log(&sandbox.config, &made.log_path, &container.name, &made.id).await;
        if !made.runs {
            self.post_start(starting, &made.id, &watched).await?;
        }
        Ok((made.id, made.number))
    }

    fn count_image_volumes<T>(
        &self,
        starting: &StartContext<'_>,
        made: Result<T, StartError>,
    ) -> Result<T, StartError> {
        let images = mounted_images(starting.pod, starting.container);
        let mounts = starting.container.volume_mounts.iter().flatten();
        let mounts = mounts.filter(|mount| images.contains_key(mount.name.as_str())).count();
        let counts = &self.metrics.image_volumes;
        counts.requested(images.len());
        match &made {
            Ok(_) => counts.mounted(mounts),
            Err(error) if error.is_image_volume() => counts.failed(mounts),
            Err(_) => {}
        }
        made
    }

    /// Whether a container runs although its start got no response: then it counts as started.
    async fn runs_after_all(&self, id: &ContainerId, error: &RuntimeError) -> bool {
        if !matches!(error.code, Code::DeadlineExceeded | Code::Unavailable) {
            return false;
        }
        let status = self.containers.container_status(id).await;
        let runs = status.is_ok_and(|status| status.state == ContainerState::Running);
        if runs {
            info!(%id, %error, "Container runs although its start got no response");
        }
        runs
    }

    /// Removes a container of another attempt that does not start, so that the next attempt
    /// creates it again. One that runs although its start failed is left to the next sync.
    async fn give_up(&self, starting: &StartContext<'_>, made: &CreatedContainer) {
        if !made.adopted {
            return;
        }
        let removed = self.remover.never_started(starting, &made.id, "does-not-start").await;
        if let Err(error) = removed {
            warn!(id = %made.id, %error, "Cannot remove container that does not start");
        }
    }

    /// Runs the postStart hook. A container whose hook fails is killed.
    async fn post_start(
        &self,
        starting: &StartContext<'_>,
        id: &ContainerId,
        watched: &WatchedContainer<'_>,
    ) -> Result<(), StartError> {
        let StartContext { pod, container, sandbox, cancel, .. } = *starting;
        let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.as_ref());
        let Some(handler) = hook else { return Ok(()) };
        let hooked = Hooked { pod, container, id, ips: &sandbox.ips, sandbox: Some(&sandbox.id) };
        let sleeps = sleeps(handler);
        // The termination of the pod cancels the wait: the container is killed with the pod.
        let ran = tokio::select! {
            biased;
            () = cancel.cancelled() => {
                if sleeps {
                    self.metrics.attempts.sleep_broken_off();
                }
                return Err(StartError::PodEnds);
            }
            ran = self.hooks.run(&hooked, handler) => ran,
            // A command ends with its container, but the response may be lost; a request to another host
            // may never get a response. A sleep ends by itself.
            () = watched.has_ended_for(HOOK_TIME_AFTER_EXIT), if !sleeps => Err(HookFailure::Ended),
        };
        let Err(failure) = ran else { return Ok(()) };
        // The output of the hook may contain secrets, so the event does not have it.
        let message = "PostStartHook failed".to_owned();
        self.reporter(pod, &container.name).event(Warning, "FailedPostStartHook", message);
        self.killer.after_post_start(&hooked).await;
        let message = failure.event_message(handler, &hooked);
        Err(StartError::PostStart { message, source: failure })
    }

    /// Checks the back-off. Only a container that exited backs off: one that was killed for a change, or whose
    /// sandbox died while it ran, did not fail. Returns the back-off that the container has waited.
    fn wait_its_turn(&self, starting: &StartContext<'_>) -> Result<Option<Duration>, StartError> {
        let StartContext { pod, container, status, .. } = starting;
        let ended = status.latest_ended(&container.name);
        let Some(finished) = ended.and_then(|ended| ended.finished_at) else { return Ok(None) };
        let image = container.image.clone().unwrap_or_default();
        let resources = serde_json::to_string(&container.resources).unwrap_or_default();
        let key = (status.uid.clone(), container.name.clone(), image, resources);
        let now = self.clock.now();
        let mut restarts = self.restarts.lock().unwrap_or_else(PoisonError::into_inner);
        restarts.expire(now);
        let waited = restarts.delay(&key, finished);
        match restarts.turn(&key, finished, now) {
            Turn::Now => Ok(waited),
            Turn::NotBefore { at, delay } => {
                let (container, name) = (container.name.clone(), view::pod_name(pod));
                let pod = format!("{}_{}({})", name.name, name.namespace, status.uid);
                Err(StartError::BackOff { container, pod, delay, until: at })
            }
        }
    }
}
