//! The process ids of containers, which only the container runtime has.

use std::collections::BTreeMap;
use std::path::Path;

use cri::{CriRuntime, Deadlines, Endpoint};
use ferrolet::runtime_note::RuntimeNote;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use model::ids::ContainerId;

/// Process ids by the container ids of statuses.
pub(super) type ProcessIds = BTreeMap<String, i64>;

/// The process ids of the running containers. None are known if the runtime does not report them.
pub(super) async fn process_ids(root_dir: &Path, pod: &Pod) -> ProcessIds {
    let Some(runtime) = runtime(root_dir).await else { return ProcessIds::new() };
    let mut ids = ProcessIds::new();
    for name in running(pod) {
        let id = ContainerId::from(name.rsplit('/').next().unwrap_or(&name));
        if let Ok(Some(process)) = runtime.container_process(&id).await {
            ids.insert(name, process);
        }
    }
    ids
}

/// The runtime that the agent has noted.
async fn runtime(root_dir: &Path) -> Option<CriRuntime> {
    let note = RuntimeNote::read(&hostfs::Host::default(), root_dir).await.ok()??;
    let endpoint = Endpoint::parse(&note.runtime_endpoint).ok()?;
    Some(CriRuntime::new(&endpoint, &endpoint, Deadlines::default()))
}

fn running(pod: &Pod) -> Vec<String> {
    let Some(status) = &pod.status else { return Vec::new() };
    let lists = [
        &status.init_container_statuses,
        &status.container_statuses,
        &status.ephemeral_container_statuses,
    ];
    let statuses = lists.into_iter().flatten().flatten();
    let is_running = |status: &&ContainerStatus| {
        status.state.as_ref().is_some_and(|state| state.running.is_some())
    };
    statuses.filter(is_running).filter_map(|status| status.container_id.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::test_pods;

    #[test]
    fn only_running_containers_have_processes() {
        assert_eq!(running(&test_pods::running("default", "web").pod), ["containerd://id"]);
        assert_eq!(running(&test_pods::crashing("default", "web").pod), [""; 0]);
    }

    #[tokio::test]
    async fn process_ids_are_unknown_without_a_runtime_note() {
        let root = tempfile::tempdir().unwrap();
        let pod = test_pods::running("default", "web").pod;
        assert!(process_ids(root.path(), &pod).await.is_empty());
    }
}
