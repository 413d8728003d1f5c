//! Executes the actions that were computed for a pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use model::cgroup::CgroupValues;
use model::ids::{ContainerId, PodUid};
use model::observed::RuntimePodStatus;
use model::ports::events::EventType::Normal;
use model::ports::events::Events;
use model::ports::files::FileError;
use model::wait::Wait;
use podspec::view;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::cgroups::PodCgroups;
use crate::decide::{
    CgroupFacts, CgroupPlan, ContainerStart, PodActions, PodEnd, Progress, SandboxPlan, Sizes,
    SyncContext, needs, pod_actions,
};
use crate::error::{ReleaseError, ResizeError, SyncError};
use crate::image::EarlyLookup;
use crate::killer::PodKiller;
use crate::metrics::Metrics;
use crate::parts::{PodRuntimeParts, SharedParts};
use crate::remover::ContainerRemover;
use crate::report::Reporter;
use crate::resizer::{MissingResources, PodResizer};
use crate::sandboxes::{SandboxContext, Sandboxes, has_user_namespace};
use crate::setup::{PodSetup, Preparation, PreparedPod};
use crate::starter::{ContainerStarter, StartRequest};

/// Which actions of a pod were executed.
#[derive(Debug)]
pub enum Applied {
    /// All of them.
    Done(Progress),
    /// A new sandbox is ready. The caller publishes that, and then calls [`PodRuntime::start`].
    SandboxReady(Box<PendingStart>),
    /// Only kills and removals. Containers cannot start yet.
    NotReady {
        /// What they wait for.
        wait: Wait,
        /// Whether anything was killed or removed.
        acted: bool,
    },
}

/// Containers that are about to start in a ready sandbox.
#[derive(Debug)]
pub struct PendingStart {
    sandbox: SandboxContext,
    /// Whether the sandbox was just created.
    is_new: bool,
    starts: Vec<ContainerStart>,
    /// The early lookup of the image of the first container.
    early: Option<EarlyLookup>,
    /// Whether the pod was resized; reported after the containers have started.
    resized: Result<bool, ResizeError>,
}

/// Converges the runtime with pods. There is one for the node; the workers of pods use it concurrently.
#[derive(Debug)]
pub struct PodRuntime {
    sandboxes: Sandboxes,
    starter: ContainerStarter,
    killer: Arc<PodKiller>,
    remover: Arc<ContainerRemover>,
    resizer: PodResizer,
    setup: PodSetup,
    cgroups: Option<Arc<PodCgroups>>,
    events: Arc<dyn Events>,
    metrics: Metrics,
}

impl PodRuntime {
    /// A runtime without back-off and without reserved user ids.
    pub fn new(parts: PodRuntimeParts) -> Self {
        let node = Arc::new(parts.node.clone());
        let (hooks, killer) = parts.killer();
        let remover = parts.remover();
        let shared =
            SharedParts { hooks, killer: Arc::clone(&killer), remover: Arc::clone(&remover) };
        Self {
            sandboxes: parts.sandboxes(&node),
            resizer: parts.resizer(&node),
            setup: parts.setup(),
            cgroups: parts.cgroups.clone(),
            events: Arc::clone(&parts.events),
            metrics: parts.metrics.clone(),
            starter: parts.starter(node, shared),
            killer,
            remover,
        }
    }

    /// The pods' cgroups; `None` if disabled.
    pub fn cgroups(&self) -> Option<Arc<PodCgroups>> {
        self.cgroups.clone()
    }

    /// Kills pods and containers.
    pub fn killer(&self) -> Arc<PodKiller> {
        Arc::clone(&self.killer)
    }

    /// Registers the objects that a pod refers to. Its volumes need them even if no container starts.
    pub fn register_objects(&self, pod: &Pod) {
        self.setup.register_objects(pod);
    }

    /// Cancels the hook of a container that has exited.
    pub fn container_died(&self, id: &ContainerId) {
        self.starter.start_watch.ended(id);
    }

    /// Records an event if pods cannot use the node's `resolv.conf`. Called when the agent starts.
    pub async fn check_resolver_file(&self) {
        self.sandboxes.check_resolver_file().await;
    }

    /// Whether the runtime supports recursive read-only mounts for the pod.
    pub async fn mounts_recursively_read_only(&self, pod: &Pod) -> bool {
        self.sandboxes.mounts_recursively_read_only(pod).await
    }

    /// Reads the resources that earlier agents applied to containers. The agent does not start without
    /// them.
    pub async fn load_sizes(&self) -> Result<(), FileError> {
        self.resizer.load().await
    }

    /// The resources that containers were given since their creation.
    pub async fn sizes(&self) -> Arc<Sizes> {
        self.resizer.sizes().await
    }

    /// Drops the record of all other pods.
    pub async fn keep_sizes_of(&self, pods: &BTreeSet<PodUid>) {
        self.resizer.keep_only_of(pods).await;
    }

    /// The values of the cgroup of a pod, if known.
    pub fn cgroup_values(&self, uid: &PodUid) -> Option<CgroupValues> {
        self.resizer.cgroup_values(uid)
    }

    /// The memory limits of the running containers of a pod, by their names.
    pub fn memory_requests(&self, status: &RuntimePodStatus) -> BTreeMap<String, i64> {
        self.resizer.memory_requests(status)
    }

    /// The parts of a pod that do not have the allocated resources yet.
    pub async fn lacking(&self, pod: &Pod, status: &RuntimePodStatus) -> MissingResources {
        self.resizer.missing(pod, status).await
    }

    /// The facts about the pod's cgroup, for the computation of actions.
    pub async fn cgroup_facts(
        &self,
        pod: &Pod,
        status: &RuntimePodStatus,
    ) -> Result<CgroupFacts, SyncError> {
        match &self.cgroups {
            Some(cgroups) => cgroups.facts(pod, status).await.map_err(SyncError::Cgroup),
            None => Ok(CgroupFacts::Unmanaged),
        }
    }

    /// Kills everything of a pod that may run. `grace` overrides the pod's own grace period.
    pub async fn kill(
        &self,
        pod: &Pod,
        status: &RuntimePodStatus,
        grace: Option<Duration>,
        why: PodEnd,
    ) -> Result<(), SyncError> {
        self.killer.pod(pod, status, grace, why.rule()).await
    }

    /// Why instances of a pod were killed, for those that left no termination message.
    pub fn kill_messages(&self, uid: &PodUid) -> BTreeMap<ContainerId, String> {
        self.killer.killed.messages(uid)
    }

    /// Releases the node resources of a pod without containers and sandboxes.
    pub async fn release(&self, pod: &Pod) -> Result<(), ReleaseError> {
        self.resizer.forget(pod).await;
        self.killer.killed.forget(&view::uid(pod));
        self.setup.unregister_objects(pod);
        self.setup.release_cgroup(pod).await?;
        self.sandboxes.release_users(pod).await
    }

    /// Executes the actions for the pod, up to a new sandbox. `cancel` means that the pod is
    /// terminating: then unbounded waits are cancelled.
    pub async fn apply(
        &self,
        context: &SyncContext<'_>,
        cancel: &CancellationToken,
    ) -> Result<Applied, SyncError> {
        let SyncContext { pod, status, .. } = *context;
        self.resizer.actuated.catch_up().await;
        let mut actions = pod_actions(context);
        if let (CgroupPlan::Recount, Some(cgroups)) = (actions.cgroup, &self.cgroups) {
            cgroups.counted(pod).await;
        }
        if actions.is_nothing() {
            return Ok(Applied::Done(Progress::Nothing));
        }
        let kept = actions.sandbox.kept().cloned();
        // A container does not restart for a resize that the pod's cgroup does not allow.
        let mut raised = Ok(());
        if kept.is_some() && actions.restarts_for_size() {
            raised = self.resizer.raise(pod, kept.as_ref()).await;
        }
        if raised.is_err() {
            actions.drop_resizes();
        }
        self.kill_and_remove(context, &actions).await?;
        if !actions.reset.is_empty() || actions.cgroup == CgroupPlan::RestartInside {
            return Ok(Applied::Done(Progress::Again));
        }
        let prepared = match self.setup.prepare(pod, needs(&actions), cancel).await? {
            Preparation::Ready(prepared) => prepared,
            Preparation::NotReady(wait) => {
                return Ok(Applied::NotReady { wait, acted: actions.kills_or_removes() });
            }
        };
        let done = if actions.is_at_most_cgroup() { Progress::Nothing } else { Progress::Done };
        if actions.sandbox == SandboxPlan::None {
            return Ok(Applied::Done(done));
        }
        // A failed resize does not prevent containers from starting.
        let resized = match raised {
            Ok(()) => self.resizer.apply(pod, status, kept.as_ref(), &actions.resize).await,
            Err(error) => Err(error),
        };
        if kept.is_some() && actions.start.is_empty() {
            return Ok(Applied::Done(progress(resized, done)?));
        }
        let pending = self.pending_start(context, actions, prepared, cancel).await;
        if pending.is_err() && kept.is_none() {
            self.count_failed_start(pod, cancel);
        }
        let pending = PendingStart { resized, ..pending? };
        match kept {
            Some(_) => self.start(context, pending, cancel).await.map(Applied::Done),
            None => Ok(Applied::SandboxReady(Box::new(pending))),
        }
    }

    /// Starts containers in a ready sandbox.
    pub async fn start(
        &self,
        context: &SyncContext<'_>,
        pending: PendingStart,
        cancel: &CancellationToken,
    ) -> Result<Progress, SyncError> {
        let PendingStart { sandbox, is_new, starts, early, resized } = pending;
        let request = StartRequest { sandbox: &sandbox, starts: &starts, early, cancel };
        let started = self.starter.start_all(context, request).await;
        if started.is_err() && is_new {
            self.count_failed_start(context.pod, cancel);
        }
        started?;
        progress(resized, Progress::Done)
    }

    fn count_failed_start(&self, pod: &Pod, cancel: &CancellationToken) {
        if has_user_namespace(pod) && !cancel.is_cancelled() {
            self.metrics.attempts.pod_with_own_users_did_not_start();
        }
    }

    /// Reuses or creates the sandbox, and looks up the image of the first container meanwhile.
    async fn pending_start(
        &self,
        context: &SyncContext<'_>,
        actions: PodActions,
        _prepared: PreparedPod,
        cancel: &CancellationToken,
    ) -> Result<PendingStart, SyncError> {
        let mut early = self.starter.early_lookup(context.pod, &actions);
        // Boxed, so that the future exists only once in the state machine.
        let sandbox = Box::pin(self.sandbox(context, &actions.sandbox, cancel));
        // If it fails, the result of the lookup is not needed.
        let sandbox = match &mut early {
            Some(early) => early.beside(sandbox).await?,
            None => sandbox.await?,
        };
        let is_new = actions.sandbox.kept().is_none();
        Ok(PendingStart { sandbox, is_new, starts: actions.start, early, resized: Ok(false) })
    }

    /// The sandbox for the containers; created if missing.
    async fn sandbox(
        &self,
        context: &SyncContext<'_>,
        plan: &SandboxPlan,
        cancel: &CancellationToken,
    ) -> Result<SandboxContext, SyncError> {
        let SyncContext { pod, status, .. } = *context;
        let last = status.sandboxes.first().map_or(0, |sandbox| sandbox.attempt);
        match plan {
            SandboxPlan::Keep(id) => self.sandboxes.reuse(pod, status, id.clone()).await,
            SandboxPlan::Create { attempt, .. } => {
                self.sandboxes.create(pod, *attempt, cancel).await
            }
            SandboxPlan::None => self.sandboxes.create(pod, last, cancel).await,
        }
    }

    /// Executes the kills and removals that precede the start of containers.
    async fn kill_and_remove(
        &self,
        context: &SyncContext<'_>,
        actions: &PodActions,
    ) -> Result<(), SyncError> {
        let SyncContext { pod, status, .. } = *context;
        if let SandboxPlan::Create { replaces: true, .. } = actions.sandbox {
            let message = "Pod sandbox changed, it will be killed and re-created.";
            let reporter = Reporter::of_pod(&*self.events, pod);
            reporter.event(Normal, "SandboxChanged", message.to_owned());
        }
        if let Some(why) = actions.kill_pod {
            info!(pod = %view::pod_name(pod), uid = %status.uid, %why, "Stopping all containers of pod");
            self.killer.pod(pod, status, None, why.rule()).await?;
        }
        for kill in &actions.kill {
            self.killer.container(pod, status, kill).await?;
        }
        for reset in &actions.reset {
            if reset.kill {
                self.killer.for_reset(pod, status, reset).await?;
            }
            self.remover.reset(pod, status, reset).await?;
        }
        for removal in &actions.remove {
            // They do not block the pod; garbage collection retries.
            if let Err(error) = self.remover.leftovers(pod, status, removal).await {
                warn!(uid = %status.uid, %error, "Cannot remove old container instance");
            }
        }
        for sandbox in &actions.remove_sandboxes {
            self.sandboxes.remove_late(&status.uid, sandbox).await?;
        }
        Ok(())
    }
}

/// The progress of a sync after a resize.
fn progress(
    resized: Result<bool, ResizeError>,
    otherwise: Progress,
) -> Result<Progress, SyncError> {
    let resized = resized.map_err(SyncError::Resize)?;
    Ok(if resized { Progress::Resized } else { otherwise })
}
