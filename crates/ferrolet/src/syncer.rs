//! What is done for a pod: the pod workers' side of the runtime.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use allocation::{Resizes, resize_message};
use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use model::chain::Chain;
use model::ids::{PodName, PodUid};
use model::observed::PodStatus;
use model::pod_failure::PodFailure;
use model::ports::clock::WallClock;
use model::ports::events::{Events, PodEvent};
use model::ports::runtime::{Runtime, RuntimeError};
use model::stamp::Stamp;
use node::NodeHandle;
use pods::decide::deadline::{deadline, outlasted};
use pods::decide::requeue::{Retry, no_later};
use pods::decide::worker::{Outcome, Target};
use pods::workers::{PodSyncer, Statuses, Synced};
use podspec::view;
use runtime::decide::{ProbeResults, Progress, Situation};
use runtime::{Lacking, PodRuntime, SyncError};
use status::decide::{Waiting, asks_for_recursive_read_only};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::adopt::Adoption;
use crate::decide::after_sync::{AfterSync, after_sync};
use crate::held_up::held_up;
use crate::node_view::{NodeView, Outlook};
use crate::runtime_state::Ready;

/// Why a pod has failed that outlasted its deadline.
const TIME_IS_UP: &str = "Pod was active on the node longer than the specified deadline";

/// Makes pods as specified through the container runtime.
#[derive(Debug)]
pub(crate) struct Syncer {
    /// Does what a pod needs.
    pub(crate) pod_runtime: Arc<PodRuntime>,
    /// Makes up for what an earlier agent left undone.
    pub(crate) adoption: Adoption,
    /// The container runtime, asked why it made no sandbox.
    pub(crate) runtime: Arc<dyn Runtime>,
    /// Whom people hear from.
    pub(crate) events: Arc<dyn Events>,
    /// The time of day.
    pub(crate) clock: Arc<dyn WallClock>,
    /// Where it is told how pods are.
    pub(crate) view: Arc<NodeView>,
    /// The node, which knows whether pods get a network; none where it stands alone.
    pub(crate) node: Option<NodeHandle>,
    /// Asks for a close look at a pod.
    pub(crate) looks: pleg::Marks<()>,
    /// Pods whose resources change, between here and the sync loop.
    pub(crate) resizes: Arc<Resizes>,
    /// Why containers did not start at the last attempt. Never held across an await.
    pub(crate) failures: Mutex<BTreeMap<PodUid, BTreeMap<String, Waiting>>>,
}

impl Syncer {
    fn warn(&self, pod: &Pod, reason: &'static str, message: String) {
        let (uid, name) = (view::uid(pod), view::pod_name(pod));
        self.events.record(PodEvent::warning(uid, name, reason, message));
    }

    /// Tells how a pod is; why containers did not start and what is in the way of a resize is known here.
    fn publish(&self, pod: &Pod, status: &PodStatus, outlook: Outlook<'_>) {
        let error = self.resizes.error(&status.uid);
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let (start_failures, resize_error) = (failures.get(&status.uid), error.as_deref());
        let cgroup = self.pod_runtime.cgroup_values(&status.uid);
        let requests = outlook.resizes.then(|| self.pod_runtime.memory_requests(status));
        let outlook = Outlook {
            start_failures,
            resize_error,
            cgroup: cgroup.as_ref(),
            memory_requests: requests.as_ref(),
            ..outlook
        };
        self.view.publish(pod, status, &outlook);
    }

    /// Remembers why containers did not start, until they do. Answers whether some did not before.
    fn remember(&self, uid: &PodUid, error: Option<&SyncError>) -> bool {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = match error {
            // What is resized has started all that was to start.
            None | Some(SyncError::Resize(_)) => return failures.remove(uid).is_some(),
            Some(SyncError::StartContainers(failed)) => failed,
            // Nobody tried: what is known of the last try still holds.
            Some(_) => return failures.contains_key(uid),
        };
        let waiting = failed.iter().map(|(name, error)| {
            (name.clone(), Waiting { reason: error.label(), message: error.message() })
        });
        failures.insert(uid.clone(), waiting.collect()).is_some()
    }

    /// Whether a pod has not yet what it was given; people hear when it has.
    async fn look_at_resize(&self, pod: &Pod, status: &PodStatus) -> bool {
        let resizes = match self.pod_runtime.lacking(pod, status).await {
            Lacking::Nothing => false,
            Lacking::Containers => true,
            // Somebody may have been given something, or the cgroup could not be limited before.
            Lacking::Cgroup => return self.resizes.goes_on(&status.uid),
        };
        if self.resizes.seen(&status.uid, pod, resizes) {
            let (uid, name) = (status.uid.clone(), view::pod_name(pod));
            info!(pod = %name, %uid, "pod has the resources that it was given");
            let message = resize_message("completed", pod, None);
            self.events.record(PodEvent::normal(uid, name, "ResizeCompleted", message));
        }
        resizes
    }

    /// What is known of a pod before anything is done for it.
    async fn outlook(&self, pod: &Pod, status: &PodStatus) -> Outlook<'static> {
        let resizes = self.look_at_resize(pod, status).await;
        let asks = asks_for_recursive_read_only(pod);
        let recursive_read_only = asks && self.pod_runtime.mounts_recursively_read_only(pod).await;
        Outlook { resizes, recursive_read_only, ..Outlook::default() }
    }

    /// Tells what is in the way of a resize, once.
    fn resize_failed(&self, pod: &Pod, uid: &PodUid, error: &SyncError) {
        let SyncError::Resize(error) = error else { return };
        let error = error.told();
        // A part of it may have been done.
        self.looks.mark(uid, [()]);
        if self.resizes.failed(uid, &error) {
            self.warn(pod, "ResizeError", resize_message("error", pod, Some(&error)));
        }
    }

    /// When to look again at a pod that is held up, by what it asks for or by what the node lacks; people
    /// hear of it.
    fn hold_up(&self, pod: &Pod, status: &PodStatus) -> Option<Retry> {
        if let Some((reason, message)) = held_up(pod) {
            self.warn(pod, reason, message);
            return Some(Retry::Failure);
        }
        let error = self.network_error(pod, status)?;
        self.warn(pod, "NetworkNotReady", format!("network is not ready: {error}"));
        Some(Retry::Network)
    }

    /// Why a pod that has no network yet would get none, if that is known.
    fn network_error(&self, pod: &Pod, status: &PodStatus) -> Option<String> {
        if view::host_network(pod) || status.has_ready_sandbox() {
            return None;
        }
        let node = self.node.as_ref()?;
        let error = node.network_error()?;
        // The runtime does not tell by itself when there is one.
        node.runtime_changed();
        Some(error)
    }

    /// What comes after a sync in which all worked that was to be done.
    fn synced(
        &self,
        pod: &Pod,
        status: &PodStatus,
        outlook: Outlook<'_>,
        (progress, deadline): (Progress, Option<Timestamp>),
    ) -> Synced {
        let waited = self.remember(&status.uid, None);
        let AfterSync { outcome, acted, tell, look } =
            after_sync(progress, waited, deadline, self.clock.now());
        if !acted {
            debug!(pod = %view::pod_name(pod), uid = %status.uid, "pod is as specified");
        }
        if tell {
            self.publish(pod, status, outlook);
        }
        if look {
            self.looks.mark(&status.uid, [()]);
        }
        Synced { outcome, acted }
    }

    /// When to try again after a failure.
    async fn retry(&self, pod: &Pod, error: &SyncError) -> Retry {
        if let Some(at) = error.retry_at() {
            return Retry::At(at);
        }
        if matches!(error, SyncError::CreateSandbox(_))
            && let Ok(status) = self.runtime.status().await
            && let Some(error) = status.network_error()
        {
            self.warn(pod, "NetworkNotReady", format!("network is not ready: {error}"));
            return Retry::Network;
        }
        Retry::Failure
    }
}

#[async_trait]
impl PodSyncer for Syncer {
    async fn sync(&self, pod: &Arc<Pod>, status: &PodStatus, cancel: &CancellationToken) -> Synced {
        let name = view::pod_name(pod);
        self.adoption.adopt(&name, status).await;
        let outlook = self.outlook(pod, status).await;
        let time_is_up = || deadline(pod, status, self.view.began(&status.uid));
        let failure = PodFailure {
            reason: "DeadlineExceeded",
            message: TIME_IS_UP.to_owned(),
            disruption: None,
        };
        let has_finished = runtime::decide::has_finished(pod, status);
        let by_then = time_is_up().is_some_and(|deadline| outlasted(pod, status, deadline));
        let of_it = Some(&failure).filter(|_| has_finished && by_then);
        self.publish(pod, status, Outlook { failure: of_it, ..outlook });
        // Now that it was told of, it has begun.
        let deadline = time_is_up();
        // Also where nobody saw how it ended: what was told to be over does not run a second time.
        if has_finished || self.view.is_over(&status.uid) {
            info!(pod = %name, uid = %status.uid, "pod has finished");
            return Synced { outcome: Outcome::Finished, acted: false };
        }
        let again = |retry| Outcome::Again(no_later(retry, deadline, self.clock.now()));
        if deadline.is_some_and(|deadline| deadline <= self.clock.now()) {
            // One of which nothing is left but remains was ended before, by an earlier agent.
            if status.may_be_alive() || status.sandboxes.is_empty() {
                let (uid, name) = (view::uid(pod), view::pod_name(pod));
                let event = PodEvent::normal(uid, name, "DeadlineExceeded", TIME_IS_UP.to_owned());
                self.events.record(event);
            }
            self.publish(pod, status, Outlook { failure: Some(&failure), ..outlook });
            return Synced { outcome: Outcome::Finished, acted: false };
        }
        if let Some(retry) = self.hold_up(pod, status) {
            return Synced { outcome: again(retry), acted: false };
        }
        let sizes = self.pod_runtime.sizes().await;
        let situation = Situation {
            pod,
            status,
            probes: &ProbeResults::default(),
            restart_all: self.view.is_restarting_all(&status.uid),
            sizes: &sizes,
        };
        let has_new_sandbox = AtomicBool::new(false);
        let has_home = || {
            has_new_sandbox.store(true, Ordering::Relaxed);
            self.publish(pod, status, Outlook { has_new_sandbox: true, ..outlook });
        };
        match self.pod_runtime.sync(&situation, cancel, &has_home).await {
            Ok(progress) => self.synced(pod, status, outlook, (progress, deadline)),
            Err(error) => {
                warn!(pod = %name, uid = %status.uid, error = %Chain(&error), "pod is not as specified; trying again");
                self.remember(&status.uid, Some(&error));
                self.resize_failed(pod, &status.uid, &error);
                let has_new_sandbox = has_new_sandbox.into_inner();
                self.publish(pod, status, Outlook { has_new_sandbox, ..outlook });
                let retry = self.retry(pod, &error).await;
                Synced { outcome: again(retry), acted: true }
            }
        }
    }

    async fn terminate(&self, target: &Target, status: &PodStatus, grace: Duration) -> Outcome {
        let pod = match target {
            Target::Pod(pod) => Arc::clone(pod),
            Target::RuntimeOnly(name) => Arc::new(runtime_only(name, &status.uid)),
        };
        let name = view::pod_name(&pod);
        if let Target::Pod(pod) = target {
            self.publish(pod, status, Outlook::default());
        }
        // A sandbox that died by itself is stopped too: it may still hold its network.
        if !status.may_be_alive() && status.sandboxes.is_empty() {
            return Outcome::Done;
        }
        info!(pod = %name, uid = %status.uid, ?grace, "stopping pod");
        match self.pod_runtime.kill(&pod, status, Some(grace)).await {
            Ok(()) => Outcome::Done,
            Err(error) => {
                let message = format!("error killing pod: {}", error.kill_told(&status.uid));
                self.warn(&pod, "FailedKillPod", message);
                warn!(pod = %name, uid = %status.uid, error = %Chain(&error), "cannot stop a pod; trying again");
                Outcome::Again(Retry::Failure)
            }
        }
    }

    fn status_unknown(&self, pod: &Pod, error: &RuntimeError) {
        self.warn(pod, "FailedSync", format!("error determining status: {}", error.rpc_text()));
    }

    async fn clean_up(&self, pod: &Arc<Pod>, status: &PodStatus) -> Outcome {
        self.remember(&status.uid, None);
        self.publish(pod, status, Outlook { stopped_for_good: true, ..Outlook::default() });
        // Nothing of it runs any more, which now may be told.
        self.view.look_again(&status.uid);
        if let Err(error) = self.pod_runtime.release(pod).await {
            warn!(pod = %view::pod_name(pod), uid = %status.uid, error = %Chain(&error), "cannot release what the node keeps for a pod; trying again");
            return Outcome::Again(Retry::Failure);
        }
        self.adoption.forget(&status.uid);
        self.view.finish(pod);
        info!(pod = %view::pod_name(pod), uid = %status.uid, "pod has ended");
        Outcome::Done
    }
}

/// All that is known of a pod that only the runtime knows.
fn runtime_only(name: &PodName, uid: &PodUid) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.name = Some(name.name.to_string());
    pod.metadata.namespace = Some(name.namespace.to_string());
    pod.metadata.uid = Some(uid.to_string());
    pod
}

/// What the relist task knows, for the workers.
#[derive(Debug)]
pub(crate) struct PlegStatuses {
    pub(crate) cache: pleg::cache::Reader,
    pub(crate) requests: pleg::Marks<()>,
    /// Nothing is done for any pod while the runtime says that it cannot run containers.
    pub(crate) ready: Ready,
}

#[async_trait]
impl Statuses for PlegStatuses {
    async fn newer_than(&self, uid: &PodUid, after: Stamp) -> Result<Arc<PodStatus>, RuntimeError> {
        self.ready.wait().await;
        self.cache.newer_than(uid, after).await
    }

    fn known_since(
        &self,
        uid: &PodUid,
        after: Stamp,
    ) -> Option<Result<Arc<PodStatus>, RuntimeError>> {
        self.ready.is_ready().then(|| self.cache.known_since(uid, after))?
    }

    fn look_at(&self, uid: &PodUid) {
        self.requests.mark(uid, []);
    }
}
