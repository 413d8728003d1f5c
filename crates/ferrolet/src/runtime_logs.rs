//! Paths of container logs, as the runtime reports them.

use std::path::PathBuf;

use model::ids::{ContainerId, PodUid};
use server::LogPaths;

/// Log paths from the PLEG's cache.
#[derive(Debug)]
pub(crate) struct RuntimeLogs(pub(crate) pleg::cache::Reader);

impl LogPaths for RuntimeLogs {
    fn log_path(&self, pod: &PodUid, container: &ContainerId) -> Option<PathBuf> {
        let status = self.0.get(pod).ok()?;
        let instance = status.containers.iter().find(|instance| instance.id == *container)?;
        (!instance.log_path.is_empty()).then(|| PathBuf::from(&*instance.log_path))
    }
}
