//! Old instances of containers: older ones to kill, and exited ones to remove.

use k8s_openapi::api::core::v1::Pod;
use model::observed::{ContainerState, ContainerStatus, Instance, RuntimePodStatus};
use podspec::view;

use super::actions::{ContainerKill, ContainerRemoval};
use super::reasons::KillReason;

/// Older instances that may run although a newer one of their name exists: two of one name must
/// never run.
pub(super) fn superseded(pod: &Pod, status: &RuntimePodStatus) -> Vec<ContainerKill> {
    let live = older(pod, status).filter(|instance| {
        matches!(instance.state, ContainerState::Running | ContainerState::Unknown)
    });
    let kill = |instance: &ContainerStatus| ContainerKill {
        id: instance.id.clone(),
        name: instance.name.to_string(),
        why: KillReason::Superseded,
        restarts: false,
        probe: None,
    };
    live.map(kill).collect()
}

/// Old instances that are removed before garbage collection: of each init container all but the newest exited
/// one, upstream's `pruneInitContainersBeforeStart`; and instances that never started and have a newer
/// instance.
pub(super) fn removals(pod: &Pod, status: &RuntimePodStatus) -> Vec<ContainerRemoval> {
    let never_started = older(pod, status)
        .filter(|instance| instance.state == ContainerState::Created)
        .map(|instance| removal(instance.into(), "never-started"));
    let of_inits = view::init_containers(pod).iter().flat_map(|init| {
        let ended = status.instances().filter(|instance| {
            **instance.name == *init.name
                && matches!(instance.state, ContainerState::Exited | ContainerState::Unknown)
        });
        ended.skip(1).map(|instance| removal(instance, "older-init-container"))
    });
    never_started.chain(of_inits).collect()
}

/// All instances of init containers, which start over in a new sandbox; upstream's
/// `purgeInitContainers`.
pub(super) fn of_init_containers(pod: &Pod, status: &RuntimePodStatus) -> Vec<ContainerRemoval> {
    let inits = view::init_containers(pod);
    let instances = status.instances();
    let of_inits = instances.filter(|one| inits.iter().any(|init| *init.name == **one.name));
    of_inits.map(|instance| removal(instance, "init-container-of-old-sandbox")).collect()
}

fn removal(instance: Instance<'_>, rule: &'static str) -> ContainerRemoval {
    ContainerRemoval { id: instance.id.clone(), name: instance.name.to_string(), rule }
}

/// The instances of the pod's containers that are not the latest of their name.
fn older<'a>(
    pod: &'a Pod,
    status: &'a RuntimePodStatus,
) -> impl Iterator<Item = &'a ContainerStatus> {
    let ephemeral = view::spec(pod).and_then(|spec| spec.ephemeral_containers.as_deref());
    let ephemeral = ephemeral.unwrap_or_default().iter().map(|container| &container.name);
    let others = view::init_containers(pod).iter().chain(view::containers(pod));
    let names = others.map(|container| &container.name).chain(ephemeral);
    names.flat_map(|name| {
        let latest = status.latest(name).map(|latest| &latest.id);
        let instances = status.containers.iter().filter(move |one| *one.name == **name);
        instances.filter(move |one| Some(&one.id) != latest)
    })
}
