//! Incidents of the agent: why a pod was terminated or rejected, and which containers the kernel killed.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use model::admission::Rejection;
use model::ids::{ContainerId, PodName, PodUid};
use model::observed::{self, ContainerState, ContainerStatus};
use model::ports::incidents::{Incident, IncidentKind};
use model::verdict::{Detail, Input};
use pods::decide::worker::Target;
use podspec::quantity::Quantity;
use podspec::resources::{MEMORY, limits};
use podspec::view;
use runtime::decide::PodEnd;

/// The reason of a container that the kernel killed, as runtimes report it.
const OOM_KILLED: &str = "OOMKilled";

/// The rule of kills by the kernel.
const OUT_OF_MEMORY: &str = "out-of-memory";

/// Why a pod is terminated, given its published status.
pub(crate) fn pod_end(target: &Target, status: Option<&PodStatus>) -> PodEnd {
    let Target::Pod(pod) = target else { return PodEnd::Orphaned };
    let reason = status.and_then(|status| status.reason.as_deref());
    let phase = status.and_then(|status| status.phase.as_deref());
    match (reason, phase) {
        (Some("Preempting"), _) => PodEnd::Preempted,
        (Some("DeadlineExceeded"), _) => PodEnd::DeadlineExceeded,
        (Some("Evicted"), _) => PodEnd::Evicted,
        _ if view::is_being_deleted(pod) => PodEnd::Deleted,
        (Some(_), Some("Failed")) => PodEnd::Failed,
        (_, Some("Failed" | "Succeeded")) => PodEnd::Finished,
        _ => PodEnd::Removed,
    }
}

/// The incident of a terminated instance that the kernel killed.
pub(crate) fn oom_kill(
    name: &PodName,
    uid: &PodUid,
    pod: Option<&Pod>,
    instance: &ContainerStatus,
) -> Option<Incident> {
    if instance.state != ContainerState::Exited || *instance.reason != *OOM_KILLED {
        return None;
    }
    let mut detail = Detail::default();
    if let Some(limit) = memory_limit(pod, instance) {
        detail = detail.with("memoryLimit", Input::Number(limit));
    }
    Some(Incident {
        kind: IncidentKind::Oom,
        pod: name.clone(),
        uid: uid.clone(),
        container: instance.name.to_string(),
        id: instance.id.to_string(),
        rule: OUT_OF_MEMORY.into(),
        detail: detail.with("exitCode", Input::Number(instance.exit_code.into())),
        at: instance.finished_at,
    })
}

/// The memory limit of an instance in bytes.
fn memory_limit(pod: Option<&Pod>, instance: &ContainerStatus) -> Option<i64> {
    let reported = instance.resources.as_ref().and_then(|resources| resources.memory_limit);
    reported.or_else(|| {
        let pod = pod?;
        let mut containers = view::init_containers(pod).iter().chain(view::containers(pod));
        let container = containers.find(|container| *container.name == *instance.name)?;
        limits(container).get(MEMORY).map(Quantity::value)
    })
}

/// The incident of a rejected pod.
pub(crate) fn rejection(pod: &Pod, rejection: &Rejection) -> Incident {
    let Rejection { reason, message } = rejection;
    Incident {
        kind: IncidentKind::Rejection,
        pod: view::pod_name(pod),
        uid: view::uid(pod),
        container: String::new(),
        id: view::uid(pod).to_string(),
        rule: reason.clone(),
        detail: Detail::default().with("message", Input::Text(message.clone())),
        at: None,
    }
}

/// The status of a pod, with the message of the kill for terminated instances that have no message.
pub(crate) fn with_kill_messages<'a>(
    status: &'a observed::RuntimePodStatus,
    messages: &BTreeMap<ContainerId, String>,
) -> Cow<'a, observed::RuntimePodStatus> {
    let message = |instance: &ContainerStatus| {
        let is_silent = instance.state == ContainerState::Exited && instance.message.is_empty();
        messages.get(&instance.id).filter(|_| is_silent)
    };
    if !status.containers.iter().any(|instance| message(instance).is_some()) {
        return Cow::Borrowed(status);
    }
    let mut status = status.clone();
    for instance in &mut status.containers {
        if let Some(message) = message(instance) {
            instance.message = message.as_str().into();
        }
    }
    Cow::Owned(status)
}

#[cfg(test)]
#[path = "incidents_tests.rs"]
mod tests;
