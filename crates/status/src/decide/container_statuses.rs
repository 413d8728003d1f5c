//! The statuses of all containers of a pod.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodStatus};
use podspec::view;

use crate::decide::container_status::{Kind, container_status};
use crate::decide::input::StatusInput;

/// The statuses of a pod's containers, one for each container of the specification.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Containers {
    /// The statuses of `initContainers`, in the order of the specification.
    pub init: Vec<ContainerStatus>,
    /// The statuses of `containers`, by name.
    pub regular: Vec<ContainerStatus>,
    /// The statuses of `ephemeralContainers`, by name.
    pub ephemeral: Vec<ContainerStatus>,
}

impl Containers {
    /// The status of a regular or init container.
    pub(crate) fn find(&self, name: &str) -> Option<&ContainerStatus> {
        self.regular.iter().chain(&self.init).find(|status| status.name == name)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.regular.is_empty() && self.init.is_empty()
    }
}

/// The statuses of a pod's containers; upstream's `convertToAPIContainerStatuses`.
pub fn container_statuses(input: &StatusInput<'_>) -> Containers {
    let pod = input.pod;
    let old = |list: fn(&PodStatus) -> Option<&Vec<ContainerStatus>>| {
        input.base().and_then(list).map(Vec::as_slice).unwrap_or_default()
    };
    let old_regular = old(|status| status.container_statuses.as_ref());
    let old_init = old(|status| status.init_container_statuses.as_ref());
    let old_ephemeral = old(|status| status.ephemeral_container_statuses.as_ref());
    let each = |containers: &[Container], old: &[ContainerStatus], kind: fn(&Container) -> Kind| {
        let status = |container: &Container| {
            let old = old.iter().find(|old| old.name == container.name);
            container_status(input, kind(container), container, old)
        };
        containers.iter().map(status).collect::<Vec<_>>()
    };
    let mut regular = each(view::containers(pod), old_regular, |_| Kind::Regular);
    let init = each(view::init_containers(pod), old_init, |container| {
        if view::is_sidecar(container) { Kind::Sidecar } else { Kind::Init }
    });
    let mut ephemeral = each(&view::ephemeral_containers(pod), old_ephemeral, |_| Kind::Ephemeral);
    regular.sort_by(|a, b| a.name.cmp(&b.name));
    ephemeral.sort_by(|a, b| a.name.cmp(&b.name));
    Containers { init, regular, ephemeral }
}
