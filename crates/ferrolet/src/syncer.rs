//! What is done for a pod: the pod workers' side of the runtime.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use model::chain::Chain;
use model::ids::{PodName, PodUid};
use model::observed::PodStatus;
use model::ports::runtime::RuntimeError;
use model::stamp::Stamp;
use pods::decide::requeue::Retry;
use pods::decide::worker::{Outcome, Target};
use pods::workers::{PodSyncer, Statuses, Synced};
use podspec::view;
use runtime::PodRuntime;
use tracing::{info, warn};

/// Makes pods as specified through the container runtime.
#[derive(Debug)]
pub(crate) struct Syncer {
    pub(crate) runtime: Arc<PodRuntime>,
}

#[async_trait]
impl PodSyncer for Syncer {
    async fn sync(&self, pod: &Arc<Pod>, status: &PodStatus) -> Synced {
        let name = view::pod_name(pod);
        if runtime::decide::has_finished(pod, status) {
            info!(pod = %name, uid = %status.uid, "pod has finished");
            return Synced { outcome: Outcome::Finished, acted: false };
        }
        match self.runtime.sync(pod, status).await {
            Ok(acted) => Synced { outcome: Outcome::Done, acted },
            Err(error) => {
                warn!(pod = %name, uid = %status.uid, error = %Chain(&error), "pod is not as specified; trying again");
                let retry = error.retry_at().map_or(Retry::Failure, Retry::At);
                Synced { outcome: Outcome::Again(retry), acted: true }
            }
        }
    }

    async fn terminate(&self, target: &Target, status: &PodStatus, grace: Duration) -> Outcome {
        let pod = match target {
            Target::Pod(pod) => Arc::clone(pod),
            Target::RuntimeOnly(name) => Arc::new(runtime_only(name, &status.uid)),
        };
        let name = view::pod_name(&pod);
        if !status.may_be_alive() {
            return Outcome::Done;
        }
        info!(pod = %name, uid = %status.uid, ?grace, "stopping pod");
        match self.runtime.kill(&pod, status, Some(grace)).await {
            Ok(()) => Outcome::Done,
            Err(error) => {
                warn!(pod = %name, uid = %status.uid, error = %Chain(&error), "cannot stop a pod; trying again");
                Outcome::Again(Retry::Failure)
            }
        }
    }

    async fn clean_up(&self, pod: &Arc<Pod>, status: &PodStatus) -> Outcome {
        let name = view::pod_name(pod);
        if status.maybe_running().next().is_some() {
            warn!(pod = %name, uid = %status.uid, "a container still runs after its pod was stopped; trying again");
            return Outcome::Again(Retry::Failure);
        }
        info!(pod = %name, uid = %status.uid, "pod has ended");
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
}

#[async_trait]
impl Statuses for PlegStatuses {
    async fn newer_than(&self, uid: &PodUid, after: Stamp) -> Result<Arc<PodStatus>, RuntimeError> {
        self.cache.newer_than(uid, after).await
    }

    fn look_at(&self, uid: &PodUid) {
        self.requests.mark(uid, []);
    }
}
