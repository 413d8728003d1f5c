//! Starting containers.

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::Duration;

use futures_util::future::join;
use k8s_openapi::api::core::v1::{Container, Pod};
use model::ids::ContainerId;
use model::labels;
use model::observed::{ContainerState, ContainerStatus, PodStatus};
use model::ports::events::EventType::{Normal, Warning};
use model::ports::files::FileError;
use model::ports::runtime::{Code, RuntimeError};
use model::wanted::SandboxConfig;
use podspec::view;
use tracing::{info, warn};

use crate::act::{Home, PodRuntime};
use crate::create::Made;
use crate::decide::{
    ContainerStart, PodActions, Role, SandboxPlan, Situation, Turn, sleeps, startable,
    with_default_tag,
};
use crate::error::{StartError, SyncError};
use crate::hooks::{HookFailure, Hooked};
use crate::image::{EarlyLook, Ensured};
use crate::layout::next_restart_count;
use crate::lives::Life;
use model::log_layout::LogLayout;

/// How long the answer to a hook is waited for after its container has ended.
const AFTERLIFE: Duration = Duration::from_secs(10);

/// A container to start.
pub(crate) struct Starting<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) container: &'a Container,
    pub(crate) role: Role,
    pub(crate) status: &'a PodStatus,
    pub(crate) home: &'a Home<'a>,
}

impl Starting<'_> {
    pub(crate) fn latest(&self) -> Option<&ContainerStatus> {
        self.status.latest(&self.container.name)
    }

    /// The directory of the container's logs, below that of all logs.
    pub(crate) fn logs(&self) -> PathBuf {
        let SandboxConfig { pod, pod_uid, .. } = &self.home.config;
        Path::new(&LogLayout::pod_directory_name(pod, pod_uid)).join(&self.container.name)
    }
}

/// The container that a start is about.
fn container<'a>(pod: &'a Pod, start: &ContainerStart) -> Cow<'a, Container> {
    match start.role {
        Role::Regular => Cow::Borrowed(&view::containers(pod)[start.index]),
        Role::Init | Role::Sidecar => Cow::Borrowed(&view::init_containers(pod)[start.index]),
        Role::Ephemeral => Cow::Owned(view::ephemeral_containers(pod).swap_remove(start.index)),
    }
}

impl PodRuntime {
    /// Looks at the image of the first container to start, while there is no sandbox yet for it to start in.
    pub(crate) fn early_look(&self, pod: &Pod, actions: &PodActions) -> Option<EarlyLook<'_>> {
        let first = actions.start.first()?;
        match actions.sandbox {
            SandboxPlan::Create { .. } => EarlyLook::of(&self.parts, &container(pod, first)),
            SandboxPlan::Keep(_) | SandboxPlan::None => None,
        }
    }

    /// Starts containers one after the other. One that fails does not keep the next from starting,
    /// unless it is an init container that the next ones rely on. The image of the first may have been
    /// looked for.
    pub(crate) async fn start_containers(
        &self,
        situation: &Situation<'_>,
        home: &Home<'_>,
        starts: &[ContainerStart],
        mut early: Option<EarlyLook<'_>>,
    ) -> Result<(), SyncError> {
        let Situation { pod, status, .. } = *situation;
        let mut failed = Vec::new();
        for start in starts {
            let container = container(pod, start);
            let starting = Starting { pod, container: &container, role: start.role, status, home };
            let name = &container.name;
            match self.start_in_turn(&starting, early.take()).await {
                Ok(id) => {
                    let pod = view::pod_name(pod);
                    info!(%pod, uid = %status.uid, container = name, %id, why = %start.why, "container runs");
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

    fn report_failure(&self, starting: &Starting<'_>, error: &StartError) {
        let report = self.reporter(starting.pod, &starting.container.name);
        match error {
            StartError::BackOff { container, pod, .. } => {
                let message =
                    format!("Back-off restarting failed container {container} in pod {pod}");
                report.event(Warning, "BackOff", message);
            }
            // Said already, when the container was killed for it.
            StartError::PostStart { .. } => {}
            error if error.is_nobodys_business() => {}
            error => report.event(Warning, "Failed", format!("Error: {}", error.told())),
        }
    }

    async fn start_in_turn(
        &self,
        starting: &Starting<'_>,
        early: Option<EarlyLook<'_>>,
    ) -> Result<ContainerId, StartError> {
        self.wait_its_turn(starting)?;
        let metrics = &self.parts.metrics;
        metrics.container_starts(starting.role);
        let started = self.start(starting, early).await;
        if let Err(error) = &started
            && !error.is_nobodys_business()
        {
            metrics.container_did_not_start(starting.role, error.label());
        }
        started
    }

    async fn start(
        &self,
        starting: &Starting<'_>,
        early: Option<EarlyLook<'_>>,
    ) -> Result<ContainerId, StartError> {
        let Starting { pod, container, home, .. } = *starting;
        let report = self.reporter(pod, &container.name);
        // From before it is looked for until a container has it: nobody may take it meanwhile.
        let name = container.image.as_deref().unwrap_or_default();
        let claim = self.parts.claims.claim(&with_default_tag(name));
        // Only this step may be broken off: nothing is half made by it, and it may take for ever.
        let mut image = tokio::select! {
            biased;
            () = home.cancel.cancelled() => return Err(StartError::PodEnds),
            image = self.images.ensure(&self.parts, &home.config, (container, early), &report) => image?,
        };
        let resolved = std::mem::take(&mut image.resolved);
        let made = self.made(starting, image).await?;
        // What ends before anybody looks has used it all the same.
        claim.used(self.parts.clock.now());
        drop(resolved);
        let life = self.lives.follow(&made.id);
        if !made.runs {
            report.event(Normal, "Created", "Container created".to_owned());
            if let Err(error) = self.parts.runtime.containers.start_container(&made.id).await
                && !self.runs_after_all(&made.id, &error).await
            {
                self.give_up(starting, &made).await;
                let (container, id) = (container.name.clone(), made.id);
                return Err(StartError::Run { container, id, source: error });
            }
        }
        report.event(Normal, "Started", "Container started".to_owned());
        self.link_log(&home.config, &made.log_path, &container.name, &made.id).await;
        if !made.runs {
            self.post_start(starting, &made.id, &life).await?;
        }
        Ok(made.id)
    }

    /// Whether a container runs whose start was not answered: then it has started, and what is to come after that comes.
    async fn runs_after_all(&self, id: &ContainerId, error: &RuntimeError) -> bool {
        if !matches!(error.code, Code::DeadlineExceeded | Code::Unavailable) {
            return false;
        }
        let status = self.parts.runtime.containers.container_status(id).await;
        let runs = status.is_ok_and(|status| status.state == ContainerState::Running);
        if runs {
            info!(%id, %error, "a container runs although its start was not answered");
        }
        runs
    }

    /// The container to start: one that an earlier attempt made as wanted, or a new one.
    async fn made(&self, starting: &Starting<'_>, image: Ensured) -> Result<Made, StartError> {
        let latest = starting.latest();
        let logs = self.parts.logs.pod_logs.join(starting.logs());
        let number = async {
            let number = self.restart_count(latest, &logs).await;
            let container = || starting.container.name.clone();
            number.map_err(|source| StartError::Logs { container: container(), source })
        };
        if latest.is_none() {
            // Only the logs tell, which are looked at while the rest is made.
            let (number, prepared) = join(number, self.prepare(starting, image)).await;
            return self.create(starting, number?, &prepared?).await;
        }
        let number = number.await?;
        let sandbox = &starting.home.sandbox;
        if let Some(waiting) = startable(latest, starting.container, sandbox) {
            info!(id = %waiting.id, container = %waiting.name, "starting what an earlier attempt made");
            let log_path = LogLayout::container_log(&waiting.name, number);
            return Ok(Made { id: waiting.id.clone(), log_path, runs: false, adopted: true });
        }
        if let Some(unused) = latest.filter(|latest| latest.state == ContainerState::Created) {
            self.remove_never_started(starting, &unused.id, "never-started")
                .await
                .map_err(StartError::RemoveUnused)?;
        }
        let prepared = self.prepare(starting, image).await?;
        self.create(starting, number, &prepared).await
    }

    /// A container that another attempt made and that does not start goes, so that the next attempt
    /// makes it anew. One that runs although its start failed is left to the next look.
    async fn give_up(&self, starting: &Starting<'_>, made: &Made) {
        if !made.adopted {
            return;
        }
        let removed = self.remove_never_started(starting, &made.id, "does-not-start").await;
        if let Err(error) = removed {
            warn!(id = %made.id, %error, "cannot remove a container that does not start");
        }
    }

    /// Runs what is to run right after the start. A container whose hook fails ends.
    async fn post_start(
        &self,
        starting: &Starting<'_>,
        id: &ContainerId,
        life: &Life<'_>,
    ) -> Result<(), StartError> {
        let Starting { pod, container, home, .. } = *starting;
        let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.as_ref());
        let Some(handler) = hook else { return Ok(()) };
        let hooked = Hooked { pod, container, id, ips: &home.ips, sandbox: Some(&home.sandbox) };
        let sleeps = sleeps(handler);
        // The pod's end ends the wait: the container goes with the pod.
        let ran = tokio::select! {
            biased;
            () = home.cancel.cancelled() => {
                if sleeps {
                    self.parts.metrics.attempts.sleep_broken_off();
                }
                return Err(StartError::PodEnds);
            }
            ran = self.run_hook(&hooked, handler) => ran,
            // A command ends with its container, but what tells so may be lost; a request to somebody
            // else may never be answered. A pause ends by itself.
            () = life.is_over_for(AFTERLIFE), if !sleeps => Err(HookFailure::Ended),
        };
        let Err(failure) = ran else { return Ok(()) };
        // What the hook said may hold secrets, so the event does not repeat it.
        let message = "PostStartHook failed".to_owned();
        self.reporter(pod, &container.name).event(Warning, "FailedPostStartHook", message);
        self.kill_after_post_start(&hooked).await;
        let message = failure.told(handler, &hooked);
        Err(StartError::PostStart { message, source: failure })
    }

    /// Only a container that ended waits: one that was killed for a change, or whose sandbox died
    /// with it still running, did not fail.
    fn wait_its_turn(&self, starting: &Starting<'_>) -> Result<(), StartError> {
        let Starting { pod, container, status, .. } = starting;
        let ended = status.latest_ended(&container.name);
        let Some(finished) = ended.and_then(|ended| ended.finished_at) else { return Ok(()) };
        let image = container.image.clone().unwrap_or_default();
        let resources = serde_json::to_string(&container.resources).unwrap_or_default();
        let key = (status.uid.clone(), container.name.clone(), image, resources);
        let now = self.parts.clock.now();
        let mut restarts = self.restarts.lock().unwrap_or_else(PoisonError::into_inner);
        restarts.expire(now);
        match restarts.turn(&key, finished, now) {
            Turn::Now => Ok(()),
            Turn::NotBefore { at, delay } => {
                let (container, name) = (container.name.clone(), view::pod_name(pod));
                let pod = format!("{}_{}({})", name.name, name.namespace, status.uid);
                Err(StartError::BackOff { container, pod, delay, until: at })
            }
        }
    }

    /// One more than the latest instance has that was started; the logs tell when the runtime has
    /// forgotten all. Where they cannot be seen nothing is made: it would write into the log of an earlier
    /// one.
    async fn restart_count(
        &self,
        latest: Option<&ContainerStatus>,
        logs: &Path,
    ) -> Result<u32, FileError> {
        if let Some(latest) = latest {
            let written = latest.annotations.get(labels::CONTAINER_RESTART_COUNT);
            let count = written.and_then(|written| written.parse::<u32>().ok()).unwrap_or(0);
            let unused = latest.state == ContainerState::Created;
            return Ok(if unused { count } else { count.saturating_add(1) });
        }
        match self.parts.files.list(logs).await {
            Ok(names) => Ok(next_restart_count(&names)),
            // Nothing of it has ever run here. What lies in the place of the directory is told of when it is made.
            Err(error)
                if error.is_not_found() || error.source.kind() == ErrorKind::NotADirectory =>
            {
                Ok(0)
            }
            Err(error) => Err(error),
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
