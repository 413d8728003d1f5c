//! In-place resizes: running containers whose resources differ from the allocated ones.

use k8s_openapi::api::core::v1::{Container, Pod};
use model::cgroup::{CgroupValues, cpu};
use model::ids::ContainerId;
use model::observed::{ContainerState, ContainerStatus, RuntimePodStatus};
use model::wanted::LinuxResources;
use podspec::quantity::Quantity;
use podspec::resources::{self, CPU, MEMORY};
use podspec::{Size, Sizes, actual, view};

/// A container whose resources change while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerResize {
    /// Its ID.
    pub id: ContainerId,
    /// Its name.
    pub name: String,
    /// The actual resources.
    pub from: Size,
    /// The new resources.
    pub to: Size,
}

impl ContainerResize {
    /// Whether any of its limits or requests increases.
    fn grows(&self) -> bool {
        self.to.most(self.from) != self.from
    }

    /// Whether its memory limit decreases; no limit is the largest.
    pub fn shrinks_memory(&self) -> bool {
        let (from, to) = (self.from.memory_limit, self.to.memory_limit);
        to != 0 && (from == 0 || to < from)
    }
}

/// The change that a running container needs, if any.
pub(super) fn resize_of(
    pod: &Pod,
    container: &Container,
    running: &ContainerStatus,
    sizes: &Sizes,
) -> Option<ContainerResize> {
    let to = Size::effective(pod, container);
    let has = actual(running, sizes).filter(|has| !has.is(to))?;
    let (id, name) = (running.id.clone(), container.name.clone());
    Some(ContainerResize { id, name, from: has.most(), to })
}

/// Whether a running container must restart to get the allocated resources.
pub(super) fn needs_restart(
    pod: &Pod,
    container: &Container,
    running: &ContainerStatus,
    sizes: &Sizes,
) -> bool {
    resize_of(pod, container, running, sizes).is_some_and(|change| restarts(container, &change))
}

/// Whether the resize policy of the container demands a restart for such a change.
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

/// The containers that can be resized in place; those without any increase come
/// first.
pub(super) fn resizes(pod: &Pod, status: &RuntimePodStatus, sizes: &Sizes) -> Vec<ContainerResize> {
    let changes = all(pod, status).filter_map(|(container, running)| {
        let change = resize_of(pod, container, running, sizes)?;
        (!restarts(container, &change)).then_some(change)
    });
    let mut changes: Vec<ContainerResize> = changes.collect();
    changes.sort_by_key(ContainerResize::grows);
    changes
}

/// Whether a running container does not have the allocated resources.
pub fn is_resizing(pod: &Pod, status: &RuntimePodStatus, sizes: &Sizes) -> bool {
    let mut all = all(pod, status);
    all.any(|(container, running)| resize_of(pod, container, running, sizes).is_some())
}

/// The containers of a pod that run.
fn all<'a>(
    pod: &'a Pod,
    status: &'a RuntimePodStatus,
) -> impl Iterator<Item = (&'a Container, &'a ContainerStatus)> {
    let containers = view::init_containers(pod).iter().chain(view::containers(pod));
    containers.filter_map(|container| {
        let latest = status.latest(&container.name)?;
        (latest.state == ContainerState::Running).then_some((container, latest))
    })
}

/// The memory limit of a pod after a change, if it decreases.
pub fn smaller_memory_limit(before: &CgroupValues, after: &CgroupValues) -> Option<u64> {
    let limit = after.memory_limit?;
    before.memory_limit.is_none_or(|before| limit < before).then_some(limit)
}

/// The memory usage of a container or pod whose limit decreases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryUse {
    /// The container; `None` for the whole pod.
    pub container: Option<String>,
    /// The new limit in bytes.
    pub limit: u64,
    /// The current usage in bytes, if known.
    pub used: Option<u64>,
}

/// The error if a new limit is below the usage: the kernel would kill processes.
pub fn below_usage(all: &[MemoryUse]) -> Option<String> {
    let problems = all.iter().filter_map(|one| {
        let (limit, used) = (one.limit, one.used.filter(|used| *used >= one.limit)?);
        let whose = match &one.container {
            Some(name) => format!("container {name:?}"),
            None => "pod".to_owned(),
        };
        Some(format!(
            "attempting to set {whose} memory limit ({limit}) below current usage ({used})"
        ))
    });
    let problems: Vec<String> = problems.collect();
    match problems.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        all => Some(format!("[{}]", all.join(", "))),
    }
}

/// The sandbox resources for the runtime of a pod whose cgroup has these values: those without the
/// overhead.
pub fn resized_sandbox_resources(pod: &Pod, values: &CgroupValues) -> LinuxResources {
    let overhead = resources::overhead(pod);
    let cpu = overhead.get(CPU).map_or(0, Quantity::milli_value);
    let memory = overhead.get(MEMORY).map_or(0, Quantity::value);
    let period = values.cpu_period.map_or(0, u64::cast_signed);
    let quota = values.cpu_quota.unwrap_or(0);
    let shares = values.cpu_shares.map_or(0, u64::cast_signed);
    LinuxResources {
        cpu_period: period,
        cpu_quota: if quota > 0 { quota - cpu::quota(cpu, period) } else { quota },
        cpu_shares: match shares {
            0 => 0,
            _ if cpu == 0 => shares,
            _ => cpu::shares(cpu::milli_of_shares(shares) - cpu).cast_signed(),
        },
        memory_limit: values.memory_limit.map_or(0, |limit| limit.cast_signed() - memory),
        ..LinuxResources::default()
    }
}

/// The values of a pod's cgroup during a resize: the maximum of before and after, so
/// that only its own limits restrict a container. Unset values are not changed.
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
