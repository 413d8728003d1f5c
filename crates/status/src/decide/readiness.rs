//! Whether a container has started and is ready.
//!
//! Nothing is probed yet: a container has started once it runs, and is then ready.

use k8s_openapi::api::core::v1::ContainerStatus;

use crate::decide::container_status::Kind;

/// Sets `started` and `ready`.
pub(crate) fn set(kind: Kind, status: &mut ContainerStatus) {
    let state = status.state.as_ref();
    let running = state.is_some_and(|state| state.running.is_some());
    let succeeded = state
        .and_then(|state| state.terminated.as_ref())
        .is_some_and(|terminated| terminated.exit_code == 0);
    (status.started, status.ready) = match kind {
        Kind::Regular | Kind::Sidecar => (Some(running), running),
        Kind::Init => (Some(running), succeeded),
        // They are for looking into a pod and say nothing about it.
        Kind::Ephemeral => (None, false),
    };
}
