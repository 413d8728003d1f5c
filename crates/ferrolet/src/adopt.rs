//! Completes steps that an earlier agent did not finish for a pod.

use std::path::Path;
use std::sync::Arc;

use model::ids::PodName;
use model::observed::{ContainerState, RuntimePodStatus};
use model::ports::files::HostFiles;
use runtime::LogLayout;
use tracing::warn;

/// Creates missing links to container logs.
#[derive(Debug)]
pub(crate) struct Adoption {
    files: Arc<dyn HostFiles>,
    logs: LogLayout,
}

impl Adoption {
    pub(crate) fn new(files: Arc<dyn HostFiles>, logs: LogLayout) -> Self {
        Self { files, logs }
    }

    /// Creates the links to logs that are missing: an agent that died right after it had started a container
    /// did not create one.
    pub(crate) async fn adopt(&self, pod: &PodName, status: &RuntimePodStatus) {
        let started = status.containers.iter().filter(|c| c.state != ContainerState::Created);
        for container in started.filter(|container| !container.log_path.is_empty()) {
            let link = self.logs.container_link(pod, &container.name, &container.id);
            if self.files.look(&link).await.is_ok() {
                continue;
            }
            if let Err(error) = self.files.link(Path::new(&*container.log_path), &link).await {
                warn!(%pod, container = &*container.name, %error, "Cannot create container log symlink");
            }
        }
    }
}
