//! Which running containers have other resources than their pod was given, and what to do about it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};
use model::cgroup::CgroupValues;
use model::ids::ContainerId;
use model::labels;
use model::observed::{ContainerState, ContainerStatus, PodStatus};
use podspec::resources::{CPU, MEMORY};
use podspec::{Size, view};

/// What containers were given since they were made.
pub type Sizes = BTreeMap<ContainerId, Size>;

/// A container whose resources change while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerResize {
    /// Which.
    pub id: ContainerId,
    /// Its name.
    pub name: String,
    /// What it has.
    pub from: Size,
    /// What it gets.
    pub to: Size,
}

impl ContainerResize {
    /// Whether it may use more of anything than before.
    fn grows(&self) -> bool {
        self.to.max(self.from) != self.from
    }

    /// Whether it may use less memory than before; no limit is the largest.
    pub fn shrinks_memory(&self) -> bool {
        let (from, to) = (self.from.memory_limit, self.to.memory_limit);
        to != 0 && (from == 0 || to < from)
    }
}

/// What a running instance was given last: what is on record, or what it was made with. Of one that
/// another agent made nobody knows.
pub fn actual(running: &ContainerStatus, sizes: &Sizes) -> Option<Size> {
    let made_with = || running.annotations.get(labels::CONTAINER_SIZE)?.parse().ok();
    sizes.get(&running.id).copied().or_else(made_with)
}

/// The change that a running container needs, if any.
pub(super) fn resize_of(
    pod: &Pod,
    container: &Container,
    running: &ContainerStatus,
    sizes: &Sizes,
) -> Option<ContainerResize> {
    let to = Size::effective(pod, container);
    let from = actual(running, sizes).filter(|from| *from != to)?;
    Some(ContainerResize { id: running.id.clone(), name: container.name.clone(), from, to })
}

/// Whether a running container must be made anew to have what its pod was given.
pub(super) fn needs_restart(
    pod: &Pod,
    container: &Container,
    running: &ContainerStatus,
    sizes: &Sizes,
) -> bool {
    resize_of(pod, container, running, sizes).is_some_and(|change| restarts(container, &change))
}

/// Whether the container asks to be made anew for such a change.
fn restarts(container: &Container, change: &ContainerResize) -> bool {
    let ContainerResize { from, to, .. } = change;
    let changed = |name: &str| match name {
        CPU => (from.cpu_request, from.cpu_limit) != (to.cpu_request, to.cpu_limit),
        MEMORY => (from.memory_request, from.memory_limit) != (to.memory_request, to.memory_limit),
        _ => false,
    };
    let mut policies = container.resize_policy.iter().flatten();
    policies
        .any(|policy| policy.restart_policy == "RestartContainer" && changed(&policy.resource_name))
}

/// The containers that run and can be changed as they are; those that get no more of anything come
/// first.
pub(super) fn resizes(pod: &Pod, status: &PodStatus, sizes: &Sizes) -> Vec<ContainerResize> {
    let changes = all(pod, status).filter_map(|(container, running)| {
        let change = resize_of(pod, container, running, sizes)?;
        (!restarts(container, &change)).then_some(change)
    });
    let mut changes: Vec<ContainerResize> = changes.collect();
    changes.sort_by_key(ContainerResize::grows);
    changes
}

/// Whether a container runs that has not what its pod was given.
pub fn is_resizing(pod: &Pod, status: &PodStatus, sizes: &Sizes) -> bool {
    let mut all = all(pod, status);
    all.any(|(container, running)| resize_of(pod, container, running, sizes).is_some())
}

/// The containers of a pod that run.
fn all<'a>(
    pod: &'a Pod,
    status: &'a PodStatus,
) -> impl Iterator<Item = (&'a Container, &'a ContainerStatus)> {
    let containers = view::init_containers(pod).iter().chain(view::containers(pod));
    containers.filter_map(|container| {
        let latest = status.latest(&container.name)?;
        (latest.state == ContainerState::Running).then_some((container, latest))
    })
}

/// What a pod's cgroup has while its containers change: of before and after whatever allows more, so
/// that no container is limited by more than its own. What is not here stays as it is.
pub fn raised(before: &CgroupValues, after: &CgroupValues) -> CgroupValues {
    let unlimited = |quota: i64| quota <= 0;
    let cpu_quota = match (before.cpu_quota, after.cpu_quota) {
        (Some(before), Some(after)) if unlimited(before) || unlimited(after) => Some(-1),
        (Some(before), Some(after)) => Some(before.max(after)),
        _ => None,
    };
    CgroupValues {
        cpu_shares: before.cpu_shares.max(after.cpu_shares),
        cpu_quota,
        cpu_period: cpu_quota.and(after.cpu_period),
        memory_limit: match (before.memory_limit, after.memory_limit) {
            (Some(before), Some(after)) => Some(before.max(after)),
            _ => None,
        },
        ..CgroupValues::default()
    }
}

#[cfg(test)]
#[path = "resize_tests.rs"]
mod tests;
