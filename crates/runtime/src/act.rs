//! Does what was decided for a pod.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Pod;
use model::ids::{ContainerId, PodUid, SandboxId};
use model::image_claims::ImageClaims;
use model::ports::addresses::HostIps;
use model::ports::clock::WallClock;
use model::ports::events::EventType::Normal;
use model::ports::events::{Events, NodeEvents};
use model::ports::files::HostFiles;
use model::ports::http::HttpGet;
use model::ports::runtime::Runtime;
use model::wanted::SandboxConfig;
use podspec::view;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::actuated::Actuated;
use crate::api::ApiParts;
use crate::cgroups::PodCgroups;
use crate::decide::{
    Backoff, BackoffLimits, NodeSettings, PodActions, Progress, SandboxPlan, Situation, pod_actions,
};
use crate::error::SyncError;
use crate::image::Images;
use crate::lives::Lives;
use crate::metrics::Metrics;
use crate::pod_setup::Met;
use crate::report::Reporter;
use crate::user_namespaces::UserNamespaces;
use model::log_layout::LogLayout;

/// What the executor works with.
#[derive(Debug)]
pub struct RuntimeParts {
    /// The container runtime.
    pub runtime: Runtime,
    /// The host's files: log directories and links, and the files of pods.
    pub files: Arc<dyn HostFiles>,
    /// How hooks reach pods.
    pub http: Arc<dyn HttpGet>,
    /// Whom people hear from.
    pub events: Arc<dyn Events>,
    /// The same, of the node itself.
    pub node_events: Arc<dyn NodeEvents>,
    /// The time of day.
    pub clock: Arc<dyn WallClock>,
    /// Where logs lie.
    pub logs: LogLayout,
    /// Where each pod has a directory of its own.
    pub pods: PathBuf,
    /// The node, as it is configured and found.
    pub node: NodeSettings,
    /// Its addresses.
    pub host_ips: Arc<dyn HostIps>,
    /// How long a container that keeps failing waits.
    pub restart_backoff: BackoffLimits,
    /// The pods' cgroups; none when pods have none of their own.
    pub cgroups: Option<Arc<PodCgroups>>,
    /// Where images are claimed that containers are about to be made from.
    pub claims: ImageClaims,
    /// The API; none for an agent that stands alone.
    pub api: Option<ApiParts>,
    /// Counts what is done.
    pub metrics: Metrics,
}

/// Makes the runtime match pods. One for the node; pods are synced side by side, each by its worker.
#[derive(Debug)]
pub struct PodRuntime {
    pub(crate) parts: RuntimeParts,
    pub(crate) images: Images,
    pub(crate) user_namespaces: UserNamespaces,
    /// What containers were given since they were made.
    pub(crate) actuated: Actuated,
    /// Waits of containers that keep failing. Never held across an await.
    pub(crate) restarts: Mutex<Backoff<RestartKey>>,
    /// Containers that are being started.
    pub(crate) lives: Lives,
}

/// What a restart's wait belongs to: another image, or other resources, are another try.
pub(crate) type RestartKey = (PodUid, String, String, String);

/// Where containers are started, and what ends the wait for them.
pub(crate) struct Home<'a> {
    pub(crate) sandbox: SandboxId,
    pub(crate) config: SandboxConfig,
    /// The pod's addresses.
    pub(crate) ips: Vec<IpAddr>,
    pub(crate) cancel: &'a CancellationToken,
}

impl PodRuntime {
    /// An executor with nothing remembered.
    pub fn new(parts: RuntimeParts) -> Self {
        let restarts = Mutex::new(Backoff::new(parts.restart_backoff));
        let user_namespaces = UserNamespaces::new(parts.pods.clone(), &parts.node);
        let actuated = Actuated::new(Arc::clone(&parts.files), &parts.node.root_dir);
        let (images, lives) = (Images::new(), Lives::default());
        Self { parts, images, user_namespaces, actuated, restarts, lives }
    }

    /// The pods' cgroups, if they have any.
    pub fn cgroups(&self) -> Option<Arc<PodCgroups>> {
        self.parts.cgroups.clone()
    }

    /// A container has ended. What was to be done with it while it runs is not waited for.
    pub fn container_died(&self, id: &ContainerId) {
        self.lives.ended(id);
    }

    pub(crate) fn reporter(&self, pod: &Pod, container: &str) -> Reporter<'_> {
        Reporter::of_container(&*self.parts.events, pod, container)
    }

    pub(crate) fn pod_reporter(&self, pod: &Pod) -> Reporter<'_> {
        Reporter::of_pod(&*self.parts.events, pod)
    }

    /// Does what the pod needs. `cancel` says that the pod is to end: then nothing is waited for that
    /// may take for ever. `has_home` is called when a new sandbox is ready, before anything starts in it.
    pub async fn sync(
        &self,
        situation: &Situation<'_>,
        cancel: &CancellationToken,
        has_home: &(dyn Fn() + Sync),
    ) -> Result<Progress, SyncError> {
        let Situation { pod, status, .. } = *situation;
        let met = self.meet_cgroup(pod, status).await?;
        if met == Met::Ended {
            return Ok(Progress::Again);
        }
        self.actuated.catch_up().await;
        let mut actions = pod_actions(situation);
        let kept = match &actions.sandbox {
            SandboxPlan::Keep(id) => Some(id.clone()),
            SandboxPlan::Create { .. } | SandboxPlan::None => None,
        };
        let is_kept = kept.is_some();
        if let (SandboxPlan::None, Some(cgroups)) = (&actions.sandbox, &self.parts.cgroups) {
            cgroups.counted(pod).await;
        }
        if actions.is_nothing() && (!is_kept || self.is_sized(pod)) {
            return Ok(Progress::Nothing);
        }
        // Nothing ends to start anew where it would not be let use what it is to have.
        let mut raised = Ok(());
        if is_kept && actions.restarts_for_size() {
            raised = self.raise(pod, kept.as_ref()).await;
        }
        if raised.is_err() {
            actions.leave_sizes();
        }
        self.make_way(situation, &actions).await?;
        if !actions.reset.is_empty() {
            return Ok(Progress::Again);
        }
        if actions.sandbox == SandboxPlan::None {
            return Ok(Progress::Done);
        }
        // It may have gone with the last process in it.
        if !is_kept && (met != Met::SeenTo || actions.kill_pod.is_some()) {
            self.make_cgroup(pod).await?;
        }
        // What fails here does not keep containers from starting.
        let resized = match raised {
            Ok(()) => self.resize(pod, status, kept.as_ref(), &actions.resize).await,
            Err(error) => Err(error),
        };
        if !(is_kept && actions.start.is_empty()) {
            let started = self.start_due(situation, &actions, (cancel, has_home)).await;
            if started.is_err() && !is_kept && has_own_users(pod) && !cancel.is_cancelled() {
                self.parts.metrics.attempts.pod_with_own_users_did_not_start();
            }
            started?;
        }
        let resized = resized.map_err(SyncError::Resize)?;
        Ok(if resized { Progress::Resized } else { Progress::Done })
    }

    /// Starts what is to start, where that is.
    async fn start_due(
        &self,
        situation: &Situation<'_>,
        actions: &PodActions,
        (cancel, has_home): (&CancellationToken, &(dyn Fn() + Sync)),
    ) -> Result<(), SyncError> {
        let mut early = self.early_look(situation.pod, actions);
        // Boxed, so that it takes its room once, however it is waited for.
        let home = Box::pin(self.home(situation, &actions.sandbox, cancel));
        // Where it fails, what the image would have shown is nobody's business.
        let home = match &mut early {
            Some(early) => early.beside(home).await?,
            None => home.await?,
        };
        if !matches!(actions.sandbox, SandboxPlan::Keep(_)) {
            has_home();
        }
        self.start_containers(situation, &home, &actions.start, early).await
    }

    /// Where containers are started; made if it is not there.
    async fn home<'a>(
        &self,
        situation: &Situation<'_>,
        plan: &SandboxPlan,
        cancel: &'a CancellationToken,
    ) -> Result<Home<'a>, SyncError> {
        let Situation { pod, status, .. } = *situation;
        let last = status.sandboxes.first().map_or(0, |sandbox| sandbox.attempt);
        self.register_objects(pod);
        self.make_directories(pod).await?;
        match plan {
            SandboxPlan::Keep(id) => {
                // What it is in the runtime is settled, whatever becomes of its class.
                let config = self.sandbox_config(pod, last, String::new()).await;
                let config = config.map_err(SyncError::SandboxConfig)?;
                let of_node = view::host_network(pod).then(|| self.parts.host_ips.host_ips());
                let ips = of_node.unwrap_or_else(|| status.ips.clone());
                Ok(Home { sandbox: id.clone(), config, ips, cancel })
            }
            SandboxPlan::Create { attempt, .. } => self.new_home(pod, *attempt, cancel).await,
            SandboxPlan::None => self.new_home(pod, last, cancel).await,
        }
    }

    async fn new_home<'a>(
        &self,
        pod: &Pod,
        attempt: u32,
        cancel: &'a CancellationToken,
    ) -> Result<Home<'a>, SyncError> {
        let metrics = &self.parts.metrics;
        metrics.pod_starts();
        if has_own_users(pod) {
            metrics.attempts.pod_with_own_users_starts();
        }
        let made = self.create_sandbox(pod, attempt, cancel).await;
        // Of a pod that ends meanwhile it is no failure.
        if made.is_err() && !cancel.is_cancelled() {
            metrics.pod_did_not_start();
        }
        let (sandbox, config) = made?;
        // What was observed are the addresses of an earlier sandbox.
        let ips = self.addresses(pod, &sandbox).await?;
        Ok(Home { sandbox, config, ips, cancel })
    }

    /// Ends and removes what stands in the way of what is wanted.
    async fn make_way(
        &self,
        situation: &Situation<'_>,
        actions: &PodActions,
    ) -> Result<(), SyncError> {
        let Situation { pod, status, .. } = *situation;
        if let SandboxPlan::Create { replaces: true, .. } = actions.sandbox {
            let message = "Pod sandbox changed, it will be killed and re-created.";
            self.pod_reporter(pod).event(Normal, "SandboxChanged", message.to_owned());
        }
        if let Some(why) = actions.kill_pod {
            info!(pod = %view::pod_name(pod), uid = %status.uid, %why, "stopping what is left of a pod");
            self.kill(pod, status, None).await?;
        }
        for kill in &actions.kill {
            self.kill_container(pod, status, kill).await?;
        }
        for reset in &actions.reset {
            self.reset(pod, status, reset).await?;
        }
        for removal in &actions.remove {
            // They are in nobody's way; garbage collection gets another chance.
            if let Err(error) = self.remove_remains(pod, status, removal).await {
                warn!(uid = %status.uid, %error, "cannot remove what is left of a container");
            }
        }
        for sandbox in &actions.remove_sandboxes {
            self.remove_late_sandbox(&status.uid, sandbox).await?;
        }
        Ok(())
    }
}

/// Whether the pod asks for users of its own.
pub(crate) fn has_own_users(pod: &Pod) -> bool {
    view::spec(pod).and_then(|spec| spec.host_users) == Some(false)
}
