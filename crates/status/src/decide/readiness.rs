//! Whether a container has started and is ready.

use k8s_openapi::api::core::v1::{Container, ContainerStatus};
use model::ids::without_runtime;
use model::probe::{InstanceProbes, PodProbes};

use crate::decide::container_status::Kind;

/// Inputs of readiness other than the container's own state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadinessInput<'a> {
    pub(crate) kind: Kind,
    pub(crate) container: &'a Container,
    /// Results of the pod's probes.
    pub(crate) probes: &'a PodProbes,
    /// The previous status.
    pub(crate) old: Option<&'a ContainerStatus>,
}

/// Sets `started` and `ready`.
pub(crate) fn set(input: ReadinessInput<'_>, status: &mut ContainerStatus) {
    let state = status.state.as_ref();
    let is_running = state.is_some_and(|state| state.running.is_some());
    let succeeded = state
        .and_then(|state| state.terminated.as_ref())
        .is_some_and(|terminated| terminated.exit_code == 0);
    (status.started, status.ready) = match input.kind {
        // Init containers have no probes.
        Kind::Init => (Some(is_running), succeeded),
        Kind::Regular | Kind::Sidecar if is_running => probed(input, status),
        Kind::Regular | Kind::Sidecar => (Some(false), false),
        // Ephemeral containers are for debugging and do not count.
        Kind::Ephemeral => (None, false),
    };
}

/// `started` and `ready` of a running container.
fn probed(input: ReadinessInput<'_>, status: &ContainerStatus) -> (Option<bool>, bool) {
    let ReadinessInput { container, probes, .. } = input;
    // Without a result yet, an instance keeps what an earlier agent published.
    let running = status.state.as_ref().and_then(|state| state.running.as_ref());
    let since = running.and_then(|running| running.started_at.as_ref()).map(|at| at.0);
    let is_reset =
        probes.resets_before.is_some_and(|start| since.is_none_or(|since| since < start));
    let is_same = |old: &ContainerStatus| {
        status.container_id.is_some() && old.container_id == status.container_id
    };
    let old = input.old.filter(|old| !is_reset && is_same(old));
    let result = instance_probes(probes, status);
    let startup = result.and_then(|result| result.startup);
    let is_started = startup.unwrap_or_else(|| {
        container.startup_probe.is_none() || old.is_some_and(|old| old.started == Some(true))
    });
    let readiness = result.and_then(|result| result.readiness);
    let is_ready = is_started
        && readiness.unwrap_or_else(|| {
            container.readiness_probe.is_none() || old.is_some_and(|old| old.ready)
        });
    (Some(is_started), is_ready)
}

fn instance_probes<'a>(
    probes: &'a PodProbes,
    status: &ContainerStatus,
) -> Option<&'a InstanceProbes> {
    probes.instances.get(without_runtime(status.container_id.as_deref()?))
}
