//! Syncs, terminates and cleans up single pods for the pod workers.

mod records;

use std::sync::Arc;

use allocation::{Resizes, resize_message};
use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use model::chain::Chain;
use model::ids::{PodName, PodUid};
use model::observed::RuntimePodStatus;
use model::pod_failure::PodFailure;
use model::ports::clock::WallClock;
use model::ports::events::{Events, PodEvent};
use model::ports::runtime::{Runtime, RuntimeError};
use model::wait::{Wait, WaitOn};
use node::NodeHandle;
use pods::decide::deadline::{deadline, exceeded_deadline};
use pods::decide::requeue::{Retry, no_later};
use pods::decide::worker::{Outcome, Target, Termination};
use pods::workers::{PodSyncer, SyncResult};
use podspec::recursive_read_only::requests_recursive_read_only;
use podspec::view;
use probes::ProbeManager;
use runtime::decide::{Progress, SyncContext};
use runtime::{Applied, MissingResources, PodRuntime, SyncError};
use status::decide::{ResizeState, StatusOverrides};
use status::manager::PodStatusManager;
use status::store::Published;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use volumes::VolumeManager;

use crate::adopt::Adoption;
use crate::decide::after_sync::{AfterSync, after_sync};
use crate::decide::incidents::{pod_end, with_kill_messages};
use crate::decide::sync_plan::{SyncInput, SyncPlan, sync_plan};
use crate::pod_probes::probe_results;
use crate::unsupported_wait::unsupported_wait;
pub(crate) use records::SyncRecords;

/// Reason and message for a pod that exceeded its deadline.
const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
const DEADLINE_MESSAGE: &str = "Pod was active on the node longer than the specified deadline";

/// Syncs, terminates and cleans up pods.
#[derive(Debug)]
pub(crate) struct SyncPod {
    /// Creates and kills sandboxes and containers.
    pub(crate) pod_runtime: Arc<PodRuntime>,
    /// Completes steps that an earlier agent did not finish.
    pub(crate) adoption: Adoption,
    /// The container runtime, which reports why a sandbox was not created.
    pub(crate) runtime: Runtime,
    /// Records events.
    pub(crate) events: Arc<dyn Events>,
    /// The wall clock.
    pub(crate) clock: Arc<dyn WallClock>,
    /// Publishes statuses.
    pub(crate) status: Arc<PodStatusManager>,
    /// The node with the state of its network; none outside a cluster.
    pub(crate) node: Option<NodeHandle>,
    /// Requests a new status of a pod.
    pub(crate) refreshes: pleg::DirtySet<()>,
    /// Pods whose resources change, between here and the sync loop.
    pub(crate) resizes: Arc<Resizes>,
    /// Mounts and unmounts volumes.
    pub(crate) volumes: VolumeManager,
    /// Probes containers.
    pub(crate) probes: ProbeManager,
    /// State from one sync of a pod to the next.
    pub(crate) records: SyncRecords,
}

/// The sync of one pod, whose plan is to act.
#[derive(Clone, Copy)]
struct Act<'a> {
    pod: &'a Arc<Pod>,
    status: &'a RuntimePodStatus,
    /// The status overrides before any action.
    overrides: &'a StatusOverrides,
    /// Whether all containers of the pod restart.
    restart_all: bool,
    /// When the pod's active deadline is over.
    deadline: Option<Timestamp>,
}

/// Why a pod does not match its specification after a sync.
enum Incomplete {
    /// Its containers wait for something.
    NotReady { wait: Wait, acted: bool },
    /// An action failed.
    Failed {
        error: SyncError,
        /// Whether a new sandbox is ready nevertheless.
        has_new_sandbox: bool,
    },
}

impl From<SyncError> for Incomplete {
    fn from(error: SyncError) -> Self {
        Self::Failed { error, has_new_sandbox: false }
    }
}

impl SyncPod {
    fn warn(&self, pod: &Pod, reason: &'static str, message: String) {
        let (uid, name) = (view::uid(pod), view::pod_name(pod));
        self.events.record(PodEvent::warning(uid, name, reason, message));
    }

    /// Publishes the status of a pod. Adds start failures and the state of its resize.
    fn publish(
        &self,
        pod: &Arc<Pod>,
        status: &RuntimePodStatus,
        overrides: StatusOverrides,
    ) -> Published {
        let uid = &status.uid;
        let start_failures = self.records.start_failures(uid);
        let in_progress = overrides.resize.in_progress;
        let resize = ResizeState {
            pending: self.resizes.pending(uid),
            in_progress,
            error: self.resizes.error(uid),
            cgroup: self.pod_runtime.cgroup_values(uid),
            memory_requests: in_progress.then(|| self.pod_runtime.memory_requests(status)),
        };
        let probes = self.probes.results(uid);
        let overrides = StatusOverrides { start_failures, resize, probes, ..overrides };
        let status = with_kill_messages(status, &self.pod_runtime.kill_messages(uid));
        let published = self.status.observed(pod, &status, &overrides);
        self.probes.observe(uid, &published.status);
        published
    }

    /// Whether a pod does not have its allocated resources yet. Reports a completed resize.
    async fn is_resizing(&self, pod: &Pod, status: &RuntimePodStatus) -> bool {
        let resizes = match self.pod_runtime.lacking(pod, status).await {
            MissingResources::Nothing => false,
            MissingResources::Containers => true,
            // Resources may have changed, or the cgroup could not be limited before.
            MissingResources::Cgroup => return self.resizes.is_resizing_cgroup(&status.uid),
        };
        if self.resizes.seen(&status.uid, pod, resizes) {
            let (uid, name) = (status.uid.clone(), view::pod_name(pod));
            info!(pod = %name, %uid, "Pod resize completed");
            let message = resize_message("completed", pod, None);
            self.events.record(PodEvent::normal(uid, name, "ResizeCompleted", message));
        }
        resizes
    }

    /// The status overrides of a pod before any action.
    async fn overrides(&self, pod: &Pod, status: &RuntimePodStatus) -> StatusOverrides {
        let in_progress = self.is_resizing(pod, status).await;
        let requests_any = requests_recursive_read_only(pod);
        let recursive_read_only =
            requests_any && self.pod_runtime.mounts_recursively_read_only(pod).await;
        let resize = ResizeState { in_progress, ..ResizeState::default() };
        StatusOverrides { resize, recursive_read_only, ..StatusOverrides::default() }
    }

    /// Reports the error of a resize, once.
    fn resize_failed(&self, pod: &Pod, uid: &PodUid, error: &SyncError) {
        let SyncError::Resize(error) = error else { return };
        let error = error.event_message();
        // The resize may be partly done.
        self.refreshes.mark(uid, [()]);
        if self.resizes.failed(uid, &error) {
            self.warn(pod, "ResizeError", resize_message("error", pod, Some(&error)));
        }
    }

    /// Why a pod that has finished failed: its containers ran until its deadline.
    fn failure_at_end(&self, pod: &Pod, status: &RuntimePodStatus) -> Option<PodFailure> {
        let before = self.status.reader().get(&status.uid);
        let deadline = deadline(pod, status, before.and_then(|before| before.start_time()))?;
        exceeded_deadline(pod, status, deadline).then(deadline_failure)
    }

    /// Ends a sync of a pod that has to wait.
    fn wait(&self, pod: &Pod, wait: Wait, acted: bool) -> SyncResult {
        debug!(pod = %view::pod_name(pod), uid = %view::uid(pod), on = %wait.on, "Pod is not ready to start");
        if let Some(event) = wait.event {
            self.events.record(event);
        }
        if let (WaitOn::Network, Some(node)) = (wait.on, &self.node) {
            // The runtime does not report when the network is ready.
            node.runtime_changed();
        }
        SyncResult { outcome: Outcome::Again(wait.at_latest), acted }
    }

    /// Ends a sync of a pod that exceeded its deadline.
    fn deadline_exceeded(
        &self,
        pod: &Arc<Pod>,
        status: &RuntimePodStatus,
        overrides: StatusOverrides,
        report: bool,
    ) -> SyncResult {
        if report {
            let (uid, name) = (view::uid(pod), view::pod_name(pod));
            let message = DEADLINE_MESSAGE.to_owned();
            self.events.record(PodEvent::normal(uid, name, DEADLINE_EXCEEDED, message));
        }
        let failure = Some(deadline_failure());
        self.publish(pod, status, StatusOverrides { failure, ..overrides });
        SyncResult { outcome: Outcome::Finished, acted: false }
    }

    /// Makes the runtime match the pod, and publishes that its new sandbox is ready.
    async fn apply(
        &self,
        act: Act<'_>,
        cancel: &CancellationToken,
    ) -> Result<Progress, Incomplete> {
        let Act { pod, status, overrides, restart_all, .. } = act;
        let sizes = self.pod_runtime.sizes().await;
        let context = SyncContext {
            pod,
            status,
            probes: &probe_results(self.probes.results(&status.uid)),
            restart_all,
            sizes: &sizes,
            cgroup: self.pod_runtime.cgroup_facts(pod, status).await?,
        };
        match self.pod_runtime.apply(&context, cancel).await? {
            Applied::Done(progress) => Ok(progress),
            Applied::NotReady { wait, acted } => Err(Incomplete::NotReady { wait, acted }),
            Applied::SandboxReady(pending) => {
                let overrides = StatusOverrides { has_new_sandbox: true, ..overrides.clone() };
                self.publish(pod, status, overrides);
                let started = self.pod_runtime.start(&context, *pending, cancel).await;
                started.map_err(|error| Incomplete::Failed { error, has_new_sandbox: true })
            }
        }
    }

    /// Acts for a pod, and ends the sync with its result.
    async fn act(&self, act: Act<'_>, cancel: &CancellationToken) -> SyncResult {
        let Act { pod, status, overrides, deadline, .. } = act;
        let no_later = |retry| no_later(retry, deadline, self.clock.now());
        match self.apply(act, cancel).await {
            Ok(progress) => self.synced(act, progress),
            Err(Incomplete::NotReady { wait, acted }) => {
                let at_latest = no_later(wait.at_latest);
                self.wait(pod, Wait { at_latest, ..wait }, acted)
            }
            Err(Incomplete::Failed { error, has_new_sandbox }) => {
                warn!(pod = %view::pod_name(pod), uid = %status.uid, error = %Chain(&error), "Error syncing pod, retrying");
                self.records.set_result(&status.uid, Some(&error));
                self.resize_failed(pod, &status.uid, &error);
                let overrides = StatusOverrides { has_new_sandbox, ..overrides.clone() };
                self.publish(pod, status, overrides);
                let retry = self.retry(pod, &error).await;
                SyncResult { outcome: Outcome::Again(no_later(retry)), acted: true }
            }
        }
    }

    /// Ends a sync without an error.
    fn synced(&self, act: Act<'_>, progress: Progress) -> SyncResult {
        let Act { pod, status, overrides, deadline, .. } = act;
        let waited = self.records.set_result(&status.uid, None);
        let AfterSync { outcome, acted, publish, refresh } =
            after_sync(progress, waited, deadline, self.clock.now());
        if !acted {
            debug!(pod = %view::pod_name(pod), uid = %status.uid, "Pod synced");
        }
        if publish {
            self.publish(pod, status, overrides.clone());
        }
        if refresh {
            self.refreshes.mark(&status.uid, [()]);
        }
        SyncResult { outcome, acted }
    }

    /// When to retry after a failure.
    async fn retry(&self, pod: &Pod, error: &SyncError) -> Retry {
        if let Some(at) = error.retry_at() {
            return Retry::At(at);
        }
        if matches!(error, SyncError::CreateSandbox(_))
            && let Ok(status) = self.runtime.info.status().await
            && let Some(error) = status.network_error()
        {
            self.warn(pod, "NetworkNotReady", format!("network is not ready: {error}"));
            return Retry::Network;
        }
        Retry::Failure
    }
}

#[async_trait]
impl PodSyncer for SyncPod {
    async fn sync(
        &self,
        pod: &Arc<Pod>,
        status: &RuntimePodStatus,
        cancel: &CancellationToken,
    ) -> SyncResult {
        let name = view::pod_name(pod);
        if self.records.adopt(&status.uid) {
            self.adoption.adopt(&name, status).await;
        }
        let overrides = self.overrides(pod, status).await;
        let has_finished = runtime::decide::has_finished(pod, status);
        let failure = self.failure_at_end(pod, status).filter(|_| has_finished);
        let published = self.publish(pod, status, StatusOverrides { failure, ..overrides.clone() });
        // The published status has a start time.
        let deadline = deadline(pod, status, published.start_time());
        let plan = sync_plan(&SyncInput {
            pod,
            observed: status,
            has_finished,
            has_terminal_phase: published.has_terminal_phase(),
            deadline,
            unsupported: unsupported_wait(pod),
            network_error: self.node.as_ref().and_then(NodeHandle::network_error),
            now: self.clock.now(),
        });
        match plan {
            SyncPlan::Finished => {
                info!(pod = %name, uid = %status.uid, "Pod has finished");
                return SyncResult { outcome: Outcome::Finished, acted: false };
            }
            SyncPlan::DeadlineExceeded { report } => {
                return self.deadline_exceeded(pod, status, overrides, report);
            }
            SyncPlan::Wait(wait) => return self.wait(pod, wait, false),
            SyncPlan::Act => {}
        }
        self.pod_runtime.register_objects(pod);
        self.volumes.update(pod);
        self.probes.add_pod(pod);
        self.probes.observe(&status.uid, &published.status);
        let restart_all = published.is_restarting_all();
        self.act(Act { pod, status, overrides: &overrides, restart_all, deadline }, cancel).await
    }

    async fn terminate(&self, termination: &Termination, status: &RuntimePodStatus) -> Outcome {
        let Termination { target, grace, failure } = termination;
        let pod = match target {
            Target::Pod(pod) => Arc::clone(pod),
            Target::RuntimeOnly(name) => Arc::new(runtime_only(name, &status.uid)),
        };
        let name = view::pod_name(&pod);
        self.probes.stop_liveness_and_startup(&status.uid);
        if let Target::Pod(pod) = target {
            let failure = failure.as_deref().cloned();
            self.publish(pod, status, StatusOverrides { failure, ..StatusOverrides::default() });
        }
        // A sandbox that exited is stopped too: it may still hold its network.
        if !status.may_be_alive() && status.sandboxes.is_empty() {
            return Outcome::Done;
        }
        info!(pod = %name, uid = %status.uid, ?grace, "Stopping pod");
        let published = self.status.reader().get(&status.uid);
        let why = pod_end(target, published.as_ref().map(|published| &*published.status));
        match self.pod_runtime.kill(&pod, status, Some(*grace), why).await {
            Ok(()) => Outcome::Done,
            Err(error) => {
                let message =
                    format!("error killing pod: {}", error.kill_event_message(&status.uid));
                self.warn(&pod, "FailedKillPod", message);
                warn!(pod = %name, uid = %status.uid, error = %Chain(&error), "Error killing pod, retrying");
                Outcome::Again(Retry::Failure)
            }
        }
    }

    fn status_unknown(&self, pod: &Pod, error: &RuntimeError) {
        self.warn(pod, "FailedSync", format!("error determining status: {}", error.rpc_text()));
    }

    async fn clean_up(&self, pod: &Arc<Pod>, status: &RuntimePodStatus) -> Outcome {
        self.records.set_result(&status.uid, None);
        self.probes.remove_pod(&status.uid);
        let overrides = StatusOverrides { stopped_for_good: true, ..StatusOverrides::default() };
        self.publish(pod, status, overrides);
        // Nothing of it runs any more: the status can be published.
        self.status.recheck(&status.uid);
        // Before the objects are released: an update of a volume in progress still reads them.
        let name = view::pod_name(pod);
        if let Err(error) = self.volumes.release(&status.uid, Some(name)).await {
            warn!(pod = %view::pod_name(pod), uid = %status.uid, %error, "Volumes are not unmounted yet, retrying");
            return Outcome::Again(Retry::Failure);
        }
        if let Err(error) = self.pod_runtime.release(pod).await {
            warn!(pod = %view::pod_name(pod), uid = %status.uid, error = %Chain(&error), "Cannot clean up terminated pod, retrying");
            return Outcome::Again(Retry::Failure);
        }
        self.records.forget(&status.uid);
        self.status.terminated(pod);
        info!(pod = %view::pod_name(pod), uid = %status.uid, "Pod terminated and cleaned up");
        Outcome::Done
    }
}

/// The failure of a pod that exceeded its deadline.
fn deadline_failure() -> PodFailure {
    let message = DEADLINE_MESSAGE.to_owned();
    PodFailure { reason: DEADLINE_EXCEEDED, message, disruption: None }
}

/// A pod that is known from the runtime only.
fn runtime_only(name: &PodName, uid: &PodUid) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.name = Some(name.name.to_string());
    pod.metadata.namespace = Some(name.namespace.to_string());
    pod.metadata.uid = Some(uid.to_string());
    pod
}
