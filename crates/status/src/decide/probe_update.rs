//! The status of a pod after a probe result, before its next observation.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodStatus};
use model::probe::PodProbes;
use podspec::view;

use crate::decide::container_status::Kind;
use crate::decide::container_statuses::Containers;
use crate::decide::phase::Phase;
use crate::decide::readiness::{self, ReadinessInput};
use crate::decide::{conditions, normalize};

/// The status with the results of the pod's probes. The rest is unchanged.
pub(crate) fn with_probes(
    pod: &Pod,
    status: &PodStatus,
    probes: &PodProbes,
    now: Timestamp,
) -> PodStatus {
    let mut status = status.clone();
    update(&mut status.container_statuses, view::containers(pod), probes);
    update(&mut status.init_container_statuses, view::init_containers(pod), probes);
    let Some(phase) = Phase::of(&status) else { return status };
    let containers = Containers {
        init: status.init_container_statuses.clone().unwrap_or_default(),
        regular: status.container_statuses.clone().unwrap_or_default(),
        ephemeral: Vec::new(),
    };
    conditions::update_ready(pod, &mut status, phase, &containers, now);
    normalize::normalize(&mut status);
    status
}

fn update(statuses: &mut Option<Vec<ContainerStatus>>, list: &[Container], probes: &PodProbes) {
    for status in statuses.iter_mut().flatten() {
        let Some(container) = list.iter().find(|one| one.name == status.name) else { continue };
        let is_probed = container.startup_probe.is_some() || container.readiness_probe.is_some();
        if is_probed {
            let old = status.clone();
            // Only regular containers and sidecars have probes, and both have the same rules.
            let kind = Kind::Regular;
            readiness::set(ReadinessInput { kind, container, probes, old: Some(&old) }, status);
        }
    }
}

#[cfg(test)]
#[path = "probe_update_tests.rs"]
mod tests;
