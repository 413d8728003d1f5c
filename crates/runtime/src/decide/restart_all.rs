//! All containers of a pod start over.

use k8s_openapi::api::core::v1::{Container, Pod};
use model::observed::{ContainerState, Instance, PodStatus};
use podspec::restart::restarts_all_after;
use podspec::view;

use super::actions::ContainerReset;

/// Every instance, in the order in which they go: regular containers, then init containers; those
/// whose end asked for it come last, so that an agent that dies half-way knows what was under way.
pub(super) fn resets(pod: &Pod, status: &PodStatus) -> Vec<ContainerReset> {
    let (regular, init) = (view::containers(pod), view::init_containers(pod));
    let (sources, targets) = split(regular, status);
    let (init_sources, init_targets) = split(init, status);
    [targets, init_targets, sources, init_sources].concat()
}

/// The instances whose end asks for a restart of all, and the others.
fn split(
    containers: &[Container],
    status: &PodStatus,
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
        // Those after them say why all start over.
        let older = status.older.iter().filter(|one| *one.name == *container.name);
        targets.extend(older.map(|one| reset(one.into(), false)));
    }
    (sources, targets)
}

fn reset(instance: Instance<'_>, kill: bool) -> ContainerReset {
    ContainerReset { id: instance.id.clone(), name: instance.name.to_string(), kill }
}
