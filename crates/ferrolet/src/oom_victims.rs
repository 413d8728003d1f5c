//! The pods of processes that the kernel killed.

use std::time::Duration;

use async_trait::async_trait;
use model::ids::{ContainerId, PodUid};
use model::observed::RuntimePodStatus;
use model::seq::SeqCounter;
use oom::Victims;
use oom::decide::{VictimContainer, VictimPod};
use status::store::StatusReader;

/// How long a kill waits for the status of a container that has just started.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pods by the cache of the PLEG.
#[derive(Debug)]
pub(crate) struct OomVictims {
    pub(crate) cache: pleg::cache::Reader,
    pub(crate) requests: pleg::DirtySet<()>,
    pub(crate) seq: SeqCounter,
    pub(crate) statuses: StatusReader,
}

impl OomVictims {
    /// The list of the pod spec that a container is in.
    fn list(&self, uid: &PodUid, name: &str) -> &'static str {
        let Some(published) = self.statuses.get(uid) else { return "containers" };
        let status = &published.status;
        let is_in = |list: &Option<Vec<k8s_openapi::api::core::v1::ContainerStatus>>| {
            list.iter().flatten().any(|one| one.name == name)
        };
        if is_in(&status.init_container_statuses) {
            "initContainers"
        } else if is_in(&status.ephemeral_container_statuses) {
            "ephemeralContainers"
        } else {
            "containers"
        }
    }

    /// The pod, if its status has the container or sandbox.
    fn victim(&self, status: &RuntimePodStatus, id: Option<&ContainerId>) -> Option<VictimPod> {
        let pod = status.sandboxes.first()?.pod.clone();
        let Some(id) = id else { return Some(VictimPod { pod, container: None }) };
        if let Some(instance) = status.instances().find(|instance| instance.id == id) {
            let name = instance.name.clone();
            let list = self.list(&status.uid, &name);
            return Some(VictimPod { pod, container: Some(VictimContainer { list, name }) });
        }
        let is_sandbox = status.sandboxes.iter().any(|one| one.id.as_str() == id.as_str());
        is_sandbox.then_some(VictimPod { pod, container: None })
    }
}

#[async_trait]
impl Victims for OomVictims {
    async fn find(&self, uid: &PodUid, id: Option<&ContainerId>) -> Option<VictimPod> {
        if let Some(victim) = self.cache.get(uid).ok().and_then(|status| self.victim(&status, id)) {
            return Some(victim);
        }
        let after = self.seq.next();
        self.requests.mark(uid, []);
        let fresh = tokio::time::timeout(PATIENCE, self.cache.newer_than(uid, after)).await;
        self.victim(&*fresh.ok()?.ok()?, id)
    }
}
