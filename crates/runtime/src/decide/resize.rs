//! Which running containers have other resources than their pod was given, and what to do about it.

use k8s_openapi::api::core::v1::{Container, Pod};
use model::cgroup::{CgroupValues, cpu};
use model::ids::ContainerId;
use model::observed::{ContainerState, ContainerStatus, PodStatus};
use model::wanted::LinuxResources;
use podspec::quantity::Quantity;
use podspec::resources::{self, CPU, MEMORY};
use podspec::{Size, Sizes, actual, view};

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
        self.to.most(self.from) != self.from
    }

    /// Whether it may use less memory than before; no limit is the largest.
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

/// The memory that a pod may use after a change, if that is less than before.
pub fn smaller_memory_limit(before: &CgroupValues, after: &CgroupValues) -> Option<u64> {
    let limit = after.memory_limit?;
    before.memory_limit.is_none_or(|before| limit < before).then_some(limit)
}

/// How much memory somebody uses whose limit gets smaller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryUse {
    /// Which container; none for the pod as a whole.
    pub container: Option<String>,
    /// Bytes that it may use afterwards.
    pub limit: u64,
    /// Bytes that it uses now, if anybody counts them.
    pub used: Option<u64>,
}

/// Why nobody of these may be given less memory, if so: the kernel would kill who uses more.
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

/// What a runtime is told of a pod whose cgroup has these values: those without what the pod takes
/// besides its containers.
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
