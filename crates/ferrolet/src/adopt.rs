//! Pods that an earlier agent made: what it did not get to do any more is made up for.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use model::ids::{PodName, PodUid};
use model::observed::{ContainerState, PodStatus};
use model::ports::files::HostFiles;
use runtime::LogLayout;
use tracing::warn;

/// Looks at each pod once.
#[derive(Debug)]
pub(crate) struct Adoption {
    files: Arc<dyn HostFiles>,
    logs: LogLayout,
    /// The pods that were looked at. Never held across an await.
    known: Mutex<BTreeSet<PodUid>>,
}

impl Adoption {
    pub(crate) fn new(files: Arc<dyn HostFiles>, logs: LogLayout) -> Self {
        Self { files, logs, known: Mutex::default() }
    }

    /// Makes the links to logs that are missing: a container that was started by an agent that died
    /// right then has none.
    pub(crate) async fn adopt(&self, pod: &PodName, status: &PodStatus) {
        if !self.lock().insert(status.uid.clone()) {
            return;
        }
        let started = status.containers.iter().filter(|c| c.state != ContainerState::Created);
        for container in started.filter(|container| !container.log_path.is_empty()) {
            let link = self.logs.container_link(pod, &container.name, &container.id);
            if self.files.look(&link).await.is_ok() {
                continue;
            }
            if let Err(error) = self.files.link(Path::new(&*container.log_path), &link).await {
                warn!(%pod, container = &*container.name, %error, "cannot link the log of a container");
            }
        }
    }

    /// The pod is gone.
    pub(crate) fn forget(&self, uid: &PodUid) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<PodUid>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
