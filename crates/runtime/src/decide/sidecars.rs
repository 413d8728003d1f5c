//! Sidecars: init containers that keep running with the regular containers.

use k8s_openapi::api::core::v1::Container;
use model::observed::{ContainerState, ContainerStatus};
use model::probe::ProbeFailure;

use super::actions::ContainerKill;
use super::init_containers::Finding;
use super::pod_actions::SyncContext;
use super::probe_results::ProbeResult;
use super::reasons::{KillReason, StartReason};
use super::regular_containers::{definition_changed, kill_of_unknown};
use super::resize::needs_restart;

/// The actions for a sidecar. It restarts with any policy of the pod. Whether later containers may
/// start is decided before whether the sidecar must restart.
pub(super) fn finding(
    context: &SyncContext<'_>,
    container: &Container,
    latest: &ContainerStatus,
) -> Finding {
    match latest.state {
        ContainerState::Created | ContainerState::Exited => {
            Finding::start(StartReason::of_not_running(Some(latest)))
        }
        ContainerState::Unknown => Finding {
            kill: kill_of_unknown(latest),
            ..Finding::start(StartReason::of_not_running(Some(latest)))
        },
        ContainerState::Running => running(context, container, latest),
    }
}

fn running(context: &SyncContext<'_>, container: &Container, latest: &ContainerStatus) -> Finding {
    let probes = context.probes;
    if container.startup_probe.is_some() {
        match probes.startup.get(&latest.id) {
            None => return Finding::WAIT,
            Some(ProbeResult::Failure(failure)) => {
                let finding = anew(latest, KillReason::StartupProbe, Some(failure));
                return Finding { done: false, ..finding };
            }
            Some(ProbeResult::Success) => {}
        }
    }
    let liveness = container.liveness_probe.as_ref();
    if definition_changed(container, latest) {
        anew(latest, KillReason::Changed, None)
    } else if let Some(failure) = liveness.and_then(|_| probes.liveness_failure(&latest.id)) {
        anew(latest, KillReason::LivenessProbe, Some(failure))
    } else if needs_restart(context.pod, container, latest, context.sizes) {
        anew(latest, KillReason::Resized, None)
    } else {
        Finding { done: true, ..Finding::WAIT }
    }
}

/// Killed and restarted, after later containers were allowed to start.
fn anew(latest: &ContainerStatus, why: KillReason, probe: Option<&ProbeFailure>) -> Finding {
    let kill = ContainerKill {
        id: latest.id.clone(),
        name: latest.name.to_string(),
        why,
        restarts: true,
        probe: probe.cloned(),
    };
    Finding { done: true, kill: Some(kill), ..Finding::start(StartReason::Killed(why)) }
}
