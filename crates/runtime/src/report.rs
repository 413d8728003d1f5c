//! Records events of pods and containers.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::ids::{PodName, PodUid};
use model::ports::events::{EventType, Events, PodEvent};
use podspec::view;

use crate::decide::Role;

/// Records events of a container, or of its pod.
pub(crate) struct Reporter<'a> {
    events: &'a dyn Events,
    uid: PodUid,
    pod: PodName,
    field_path: Arc<str>,
}

impl<'a> Reporter<'a> {
    /// For the pod itself.
    pub(crate) fn of_pod(events: &'a dyn Events, pod: &Pod) -> Self {
        Self { events, uid: view::uid(pod), pod: view::pod_name(pod), field_path: "".into() }
    }

    /// For a container of the pod.
    pub(crate) fn of_container(events: &'a dyn Events, pod: &Pod, name: &str) -> Self {
        let field_path = format!("spec.{}{{{name}}}", role(pod, name).field()).into();
        Self { field_path, ..Self::of_pod(events, pod) }
    }

    pub(crate) fn event(&self, kind: EventType, reason: &'static str, message: String) {
        self.events.record(PodEvent {
            pod_uid: self.uid.clone(),
            pod: self.pod.clone(),
            field_path: Arc::clone(&self.field_path),
            kind,
            reason: reason.into(),
            message,
            annotations: Vec::new(),
        });
    }
}

/// The kind of the container with a name; one that is not in the spec counts as regular.
pub(crate) fn role(pod: &Pod, name: &str) -> Role {
    if let Some(init) = view::init_containers(pod).iter().find(|init| init.name == name) {
        return if view::is_sidecar(init) { Role::Sidecar } else { Role::Init };
    }
    let ephemeral = view::spec(pod).and_then(|spec| spec.ephemeral_containers.as_deref());
    let is_ephemeral = ephemeral.unwrap_or_default().iter().any(|one| one.name == name);
    if is_ephemeral { Role::Ephemeral } else { Role::Regular }
}
