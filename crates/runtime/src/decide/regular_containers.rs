//! Regular containers in a usable sandbox of an initialized pod.

use k8s_openapi::api::core::v1::{Container, Pod};
use model::labels;
use model::observed::{ContainerState, ContainerStatus, RuntimePodStatus};
use model::probe::ProbeFailure;
use podspec::restart::{RestartPolicy, restart_policy, should_restart};
use podspec::view;

use super::actions::{ContainerKill, ContainerStart, Role};
use super::pod_actions::SyncContext;
use super::probe_results::ProbeResults;
use super::reasons::{KillReason, StartReason};
use super::resize::needs_restart;

/// The actions for regular containers.
#[derive(Debug, Default)]
pub(super) struct RegularActions {
    /// The number of containers that run and are kept.
    pub(super) kept: usize,
    pub(super) kill: Vec<ContainerKill>,
    pub(super) start: Vec<ContainerStart>,
}

pub(super) fn regular_actions(context: &SyncContext<'_>) -> RegularActions {
    let SyncContext { pod, status, probes, sizes, .. } = *context;
    let mut actions = RegularActions::default();
    for (index, container) in view::containers(pod).iter().enumerate() {
        let latest = status.latest(&container.name);
        let start = |why| ContainerStart { role: Role::Regular, index, why };
        let Some(running) = latest.filter(|latest| latest.state == ContainerState::Running) else {
            if should_restart(pod, container, latest) {
                actions.kill.extend(latest.and_then(kill_of_unknown));
                actions.start.push(start(StartReason::of_not_running(latest)));
            }
            continue;
        };
        let resized = || needs_restart(pod, container, running, sizes);
        let found = why_kill(container, running, probes);
        let found = found.or_else(|| resized().then_some((KillReason::Resized, None)));
        let Some((why, probe)) = found else {
            actions.kept += 1;
            continue;
        };
        // A changed definition or size restarts with any policy; after a failed probe the policy counts, but
        // rules do not, because there is no exit code.
        let restarts = matches!(why, KillReason::Changed | KillReason::Resized)
            || restarts_after_probe(pod, container);
        actions.kill.push(ContainerKill {
            id: running.id.clone(),
            name: container.name.clone(),
            why,
            restarts,
            probe: probe.cloned(),
        });
        actions.start.extend(restarts.then(|| start(StartReason::Killed(why))));
    }
    actions
}

/// Why a running container is killed, with the failure if that is a probe's.
fn why_kill<'a>(
    container: &Container,
    running: &ContainerStatus,
    probes: &'a ProbeResults,
) -> Option<(KillReason, Option<&'a ProbeFailure>)> {
    if definition_changed(container, running) {
        Some((KillReason::Changed, None))
    } else if let Some(failure) = probes.liveness_failure(&running.id) {
        Some((KillReason::LivenessProbe, Some(failure)))
    } else {
        let failure = probes.startup_failure(&running.id)?;
        Some((KillReason::StartupProbe, Some(failure)))
    }
}

fn restarts_after_probe(pod: &Pod, container: &Container) -> bool {
    restart_policy(pod, container) != RestartPolicy::Never
}

/// An instance in an unknown state may run: it is killed before another one starts.
pub(super) fn kill_of_unknown(latest: &ContainerStatus) -> Option<ContainerKill> {
    (latest.state == ContainerState::Unknown).then(|| ContainerKill {
        id: latest.id.clone(),
        name: latest.name.to_string(),
        why: KillReason::UnknownState,
        restarts: true,
        probe: None,
    })
}

/// Regular containers that may run although init containers must run first: they are killed.
pub(super) fn unknown_regular(pod: &Pod, status: &RuntimePodStatus) -> Vec<ContainerKill> {
    let latest = |container: &Container| status.latest(&container.name);
    view::containers(pod).iter().filter_map(latest).filter_map(kill_of_unknown).collect()
}

/// A container without a hash, which another client created, counts as unchanged.
pub(super) fn definition_changed(container: &Container, running: &ContainerStatus) -> bool {
    let image = container.image.as_deref().unwrap_or_default();
    let hash = podspec::definition_hash_hex(&container.name, image);
    running.annotations.get(labels::CONTAINER_HASH).is_some_and(|made_with| *made_with != hash)
}
