//! The view of a container in the published status of its pod.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};
use model::ids::{ContainerId, without_runtime};

/// A container as its status shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerView {
    /// The newest instance, if there is one.
    pub id: Option<ContainerId>,
    /// When it started, while it runs.
    pub running_since: Option<Timestamp>,
    /// Whether it has started: probes other than the startup probe run from then on.
    pub started: bool,
    /// Whether it is ready.
    pub ready: bool,
}

impl ContainerView {
    /// The regular or init container of a name.
    pub fn of(status: &PodStatus, name: &str) -> Self {
        let lists = [&status.container_statuses, &status.init_container_statuses];
        let mut all = lists.into_iter().flatten().flatten();
        all.find(|container| container.name == name).map(Self::shown).unwrap_or_default()
    }

    fn shown(container: &ContainerStatus) -> Self {
        let id = without_runtime(container.container_id.as_deref().unwrap_or_default());
        let running = container.state.as_ref().and_then(|state| state.running.as_ref());
        let running_since = running
            .map(|running| running.started_at.as_ref().map_or(Timestamp::UNIX_EPOCH, |at| at.0));
        Self {
            id: (!id.is_empty()).then(|| id.into()),
            running_since,
            started: container.started == Some(true),
            ready: container.ready,
        }
    }
}

/// Whether a pod has ended, by its phase.
pub fn is_terminal(status: &PodStatus) -> bool {
    matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"))
}
