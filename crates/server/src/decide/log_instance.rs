//! Selects the container instance of a log request.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodStatus};
use model::ids::{ContainerId, without_runtime};

/// An instance of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Its id in the runtime.
    pub id: ContainerId,
    /// The id in pod statuses, prefixed with the runtime's name.
    pub written_id: String,
}

impl Instance {
    fn of(written: Option<&str>) -> Option<Self> {
        let written = written.filter(|id| !id.is_empty())?;
        Some(Self { id: without_runtime(written).into(), written_id: written.to_owned() })
    }
}

/// Why there is no log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoInstance {
    /// The container has no status yet.
    #[error("container {container:?} in pod {pod:?} is not available")]
    NotAvailable {
        /// The container.
        container: String,
        /// Its pod.
        pod: String,
    },
    /// There is no earlier instance.
    #[error("previous terminated container {container:?} in pod {pod:?} not found")]
    NoPrevious {
        /// The container.
        container: String,
        /// Its pod.
        pod: String,
    },
    /// It has terminated, and its id is unknown.
    #[error("container {container:?} in pod {pod:?} is terminated")]
    Terminated {
        /// The container.
        container: String,
        /// Its pod.
        pod: String,
    },
    /// It has not started.
    #[error("container {container:?} in pod {pod:?} is waiting to start{why}")]
    Waiting {
        /// The container.
        container: String,
        /// Its pod.
        pod: String,
        /// The reason, with its separator.
        why: String,
    },
}

/// Whether the pod has a container of that name, of any kind.
pub fn has_container(pod: &Pod, name: &str) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let init = spec.init_containers.iter().flatten();
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    spec.containers.iter().chain(init).any(|container| container.name == name)
        || ephemeral.map(|container| &container.name).any(|found| found == name)
}

/// Selects the instance: the running one, else the last one; or the one before that terminated, if `previous`
/// is requested.
///
/// `pod` is the pod's name.
pub fn log_instance(
    pod: &str,
    status: &PodStatus,
    container: &str,
    previous: bool,
) -> Result<Instance, NoInstance> {
    let names = || (container.to_owned(), pod.to_owned());
    let Some(status) = statuses(status).find(|status| status.name == container) else {
        let (container, pod) = names();
        return Err(NoInstance::NotAvailable { container, pod });
    };
    let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    let last_id = last.and_then(|ended| Instance::of(ended.container_id.as_deref()));
    if previous {
        let (container, pod) = names();
        return last_id.ok_or(NoInstance::NoPrevious { container, pod });
    }
    let state = status.state.clone().unwrap_or_default();
    let found = match (&state.running, &state.terminated) {
        (Some(_), _) => Instance::of(status.container_id.as_deref()),
        (None, Some(ended)) => Instance::of(ended.container_id.as_deref()).or(last_id),
        (None, None) => last_id,
    };
    found.ok_or_else(|| {
        let (container, pod) = names();
        if state.terminated.is_some() || last.is_some() {
            NoInstance::Terminated { container, pod }
        } else {
            NoInstance::Waiting { container, pod, why: waiting(&state) }
        }
    })
}

/// The reason of a waiting container, with its separator.
fn waiting(state: &ContainerState) -> String {
    match state.waiting.as_ref().map(|waiting| waiting.reason.as_deref().unwrap_or_default()) {
        Some("ErrImagePull") => ": image can't be pulled".to_owned(),
        Some("ImagePullBackOff") => ": trying and failing to pull image".to_owned(),
        Some(reason) => format!(": {reason}"),
        None => " - no logs yet".to_owned(),
    }
}

/// Whether the pod status reports this instance as running.
pub fn is_running(status: &PodStatus, id: &ContainerId) -> bool {
    statuses(status).any(|status| {
        let running = status.state.as_ref().is_some_and(|state| state.running.is_some());
        running && status.container_id.as_deref().map(without_runtime) == Some(id.as_str())
    })
}

fn statuses(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let lists = [
        &status.container_statuses,
        &status.init_container_statuses,
        &status.ephemeral_container_statuses,
    ];
    lists.into_iter().flatten().flatten()
}

#[cfg(test)]
#[path = "log_instance_tests.rs"]
mod tests;
