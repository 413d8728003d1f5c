//! Restarts of all containers of a pod.

use k8s_openapi::api::core::v1::{Container, Pod};
use model::observed::{ContainerState, Instance, RuntimePodStatus};
use podspec::restart::restarts_all_after;
use podspec::view;

use super::actions::ContainerReset;

/// All instances, in the order of removal: regular containers, then init containers. Those that
/// triggered the restart come last, so that the next agent can continue after a crash.
pub(super) fn resets(pod: &Pod, status: &RuntimePodStatus) -> Vec<ContainerReset> {
    let (regular, init) = (view::containers(pod), view::init_containers(pod));
    let (sources, targets) = split(regular, status);
    let (init_sources, init_targets) = split(init, status);
    [targets, init_targets, sources, init_sources].concat()
}

/// The instances whose exit triggers a restart of all, and the others.
fn split(
    containers: &[Container],
    status: &RuntimePodStatus,
) -> (Vec<ContainerReset>, Vec<ContainerReset>) {
    let (mut sources, mut targets) = (Vec::new(), Vec::new());
    for container in containers {
        for one in status.containers.iter().filter(|one| *one.name == *container.name) {
            let exited = one.state == ContainerState::Exited;
            let list = if exited && restarts_all_after(container, one.exit_code) {
                &mut sources
            } else {
                &mut targets
            };
            list.push(reset(one.into(), !exited));
        }
        // The trigger is among the later ones.
        let older = status.older.iter().filter(|one| *one.name == *container.name);
        targets.extend(older.map(|one| reset(one.into(), false)));
    }
    (sources, targets)
}

fn reset(instance: Instance<'_>, kill: bool) -> ContainerReset {
    ContainerReset { id: instance.id.clone(), name: instance.name.to_string(), kill }
}
