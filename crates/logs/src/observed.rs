//! The containers of a pod whose logs are rotated, from the pod's status.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::ids::{ContainerId, PodName};
use model::log_layout::LogLayout;
use model::observed::RuntimePodStatus;

/// A running container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunningContainer {
    pub(crate) name: Arc<str>,
    /// Its live log.
    pub(crate) log: PathBuf,
}

/// The log files in a pod status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ObservedPod {
    pub(crate) pod: Option<PodName>,
    pub(crate) running: BTreeMap<ContainerId, RunningContainer>,
    /// The names of all its containers, running or not.
    pub(crate) containers: BTreeSet<Arc<str>>,
}

impl ObservedPod {
    /// Logs outside of the pod log directory are not rotated, nor are containers without a log.
    pub(crate) fn of(status: &RuntimePodStatus, layout: &LogLayout) -> Self {
        let running = status.running().filter(|one| layout.has_log(Path::new(&*one.log_path)));
        let running = running.map(|one| {
            let log = PathBuf::from(&*one.log_path);
            (one.id.clone(), RunningContainer { name: Arc::clone(&one.name), log })
        });
        Self {
            pod: status.sandboxes.first().map(|sandbox| sandbox.pod.clone()),
            running: running.collect(),
            containers: status.instances().map(|one| Arc::clone(one.name)).collect(),
        }
    }
}
