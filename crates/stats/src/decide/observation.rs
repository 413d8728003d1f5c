//! What is known of the pods of the node, and which of them are reported.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use model::ids::{ContainerId, PodName, PodUid, SandboxId};
use model::observed::{ContainerState, RuntimePodStatus, SandboxState};

/// A container that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningContainer {
    /// The runtime's ID.
    pub id: ContainerId,
    /// Its name in the pod spec.
    pub name: Arc<str>,
    /// Its image.
    pub image: Arc<str>,
    /// When it was created.
    pub created_at: Timestamp,
}

/// A pod with a running container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningPod {
    /// The UID.
    pub uid: PodUid,
    /// The name and namespace.
    pub name: PodName,
    /// Its sandbox.
    pub sandbox: SandboxId,
    /// When the sandbox was created.
    pub created_at: Timestamp,
    /// Whether the sandbox is ready.
    is_ready: bool,
    /// Its containers, by name.
    pub containers: Vec<RunningContainer>,
}

/// The pods that are reported: those with a running container. Of several pods of one name those with a ready sandbox,
/// or else the newest.
pub fn running_pods(statuses: &[Arc<RuntimePodStatus>]) -> Vec<RunningPod> {
    let mut by_name: BTreeMap<PodName, Vec<RunningPod>> = BTreeMap::new();
    for pod in statuses.iter().filter_map(|status| running_pod(status)) {
        by_name.entry(pod.name.clone()).or_default().push(pod);
    }
    let mut reported = Vec::new();
    for (_, mut pods) in by_name {
        if pods.iter().any(|pod| pod.is_ready) {
            pods.retain(|pod| pod.is_ready);
        } else {
            pods.sort_by_key(|pod| pod.created_at);
            pods.drain(..pods.len() - 1);
        }
        reported.extend(pods);
    }
    reported.retain(|pod| !pod.containers.is_empty());
    reported
}

/// A pod with its ready sandbox, or else its newest.
fn running_pod(status: &RuntimePodStatus) -> Option<RunningPod> {
    let is_ready = |state| state == SandboxState::Ready;
    let ready = status.sandboxes.iter().find(|sandbox| is_ready(sandbox.state));
    let sandbox = ready.or_else(|| status.sandboxes.first())?;
    let running = status.containers.iter().filter(|one| one.state == ContainerState::Running);
    let mut containers: Vec<RunningContainer> = running
        .map(|one| RunningContainer {
            id: one.id.clone(),
            name: Arc::clone(&one.name),
            image: Arc::clone(&one.image),
            created_at: one.created_at,
        })
        .collect();
    containers.sort_by(|a, b| (&a.name, b.created_at).cmp(&(&b.name, a.created_at)));
    containers.dedup_by(|later, earlier| later.name == earlier.name);
    Some(RunningPod {
        uid: status.uid.clone(),
        name: sandbox.pod.clone(),
        sandbox: sandbox.id.clone(),
        created_at: sandbox.created_at,
        is_ready: is_ready(sandbox.state),
        containers,
    })
}

#[cfg(test)]
mod tests {
    use model::observed::SandboxStatus;
    use testkit::observed::{container_status, sandbox_status};

    use super::*;

    fn pod(uid: &str, seconds: i64, state: SandboxState) -> RuntimePodStatus {
        let sandbox = SandboxStatus {
            pod_uid: uid.into(),
            created_at: Timestamp::from_second(seconds).unwrap(),
            ..sandbox_status(uid, state)
        };
        RuntimePodStatus {
            sandboxes: vec![sandbox],
            containers: vec![container_status("c", "main", ContainerState::Running)],
            ..RuntimePodStatus::empty(uid.into())
        }
    }

    fn reported(pods: Vec<RuntimePodStatus>) -> Vec<String> {
        let pods: Vec<_> = pods.into_iter().map(Arc::new).collect();
        running_pods(&pods).into_iter().map(|pod| pod.uid.to_string()).collect()
    }

    // behaviour: STA-4
    #[test]
    fn ready_sandbox_wins_else_the_newest_pod() {
        use SandboxState::{NotReady, Ready};
        assert_eq!(reported(vec![pod("old", 1, Ready), pod("new", 2, NotReady)]), ["old"]);
        assert_eq!(reported(vec![pod("old", 1, NotReady), pod("new", 2, NotReady)]), ["new"]);
        let both = reported(vec![pod("old", 1, Ready), pod("new", 2, Ready)]);
        assert_eq!(both, ["old", "new"], "two pods, not one twice");
    }

    // behaviour: STA-4
    #[test]
    fn only_pods_with_running_containers_are_reported() {
        let mut status = pod("u", 1, SandboxState::Ready);
        status.containers = vec![
            container_status("b2", "b", ContainerState::Running),
            container_status("b1", "b", ContainerState::Exited),
            container_status("a1", "a", ContainerState::Running),
        ];
        let found = running_pods(&[Arc::new(status.clone())]);
        let ids: Vec<_> = found[0].containers.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(ids, ["a1", "b2"]);
        status.containers.retain(|one| one.state == ContainerState::Exited);
        assert_eq!(running_pods(&[Arc::new(status)]), []);
    }
}
