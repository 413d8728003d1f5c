//! Regular containers, in a sandbox that can be used, once the pod is initialised.

use k8s_openapi::api::core::v1::{Container, Pod};
use model::labels;
use model::observed::{ContainerState, ContainerStatus, PodStatus};
use model::probe::ProbeFailure;
use podspec::restart::{RestartPolicy, restart_policy, should_restart};
use podspec::view;

use super::actions::{ContainerKill, ContainerStart, Role};
use super::pod_actions::SyncContext;
use super::probe_results::ProbeResults;
use super::reasons::{KillReason, StartReason};
use super::resize::needs_restart;

/// What regular containers need.
#[derive(Debug, Default)]
pub(super) struct RegularActions {
    /// How many run and stay.
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
        // A changed definition or size runs whatever the policy; after a failed probe the policy counts, and
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

/// An instance in an unknown state may live: it is ended before another one starts.
pub(super) fn kill_of_unknown(latest: &ContainerStatus) -> Option<ContainerKill> {
    (latest.state == ContainerState::Unknown).then(|| ContainerKill {
        id: latest.id.clone(),
        name: latest.name.to_string(),
        why: KillReason::UnknownState,
        restarts: true,
        probe: None,
    })
}

/// What may live of regular containers although init containers are to run, which come before them.
pub(super) fn unknown_regular(pod: &Pod, status: &PodStatus) -> Vec<ContainerKill> {
    let latest = |container: &Container| status.latest(&container.name);
    view::containers(pod).iter().filter_map(latest).filter_map(kill_of_unknown).collect()
}

/// A container that was made by somebody else, without a hash, is taken as it is.
pub(super) fn definition_changed(container: &Container, running: &ContainerStatus) -> bool {
    let image = container.image.as_deref().unwrap_or_default();
    let hash = podspec::definition_hash_hex(&container.name, image);
    running.annotations.get(labels::CONTAINER_HASH).is_some_and(|made_with| *made_with != hash)
}
