//! Converts requests and limits to kernel settings.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};
use model::cgroup::{cpu, huge_page_size};
use model::machine::{Cgroups, HugePages, Machine};
use model::wanted::{HugePageLimit, LinuxResources};
use podspec::quantity::Quantity;
use podspec::resources::{self, Amounts, CPU, HUGE_PAGES_PREFIX, MEMORY};
use podspec::{QosClass, qos_class, view};

/// The OOM score adjustments of guaranteed and best-effort containers.
const GUARANTEED: i64 = -997;
const BEST_EFFORT: i64 = 1000;

/// The limit settings of the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitSettings {
    /// The CFS quota period; `None` if CPU limits are not enforced.
    pub cpu_period: Option<Duration>,
    /// Whether the kernel kills all processes of a container that is out of memory. Only
    /// cgroup v2 can.
    pub oom_kills_all: bool,
}

/// The resources of a container.
pub fn container_resources(
    pod: &Pod,
    container: &Container,
    settings: &LimitSettings,
    machine: &Machine,
) -> LinuxResources {
    let requests = resources::requests(container);
    // The limit of the pod is the default of a container without its own.
    let mut limits = resources::limits_of_whole(pod);
    limits.extend(set(resources::limits(container)));
    let mut values = linux(&requests, &limits, settings, machine);
    values.oom_score_adj = oom_score_adj(pod, container, machine.memory);
    values.huge_page_limits =
        machine.huge_pages.iter().map(|pages| huge_pages(*pages, &limits)).collect();
    if machine.swap_controller {
        // Pods use no swap unless the node is configured otherwise.
        match machine.cgroups {
            Cgroups::V1 => values.memory_swap_limit = values.memory_limit,
            Cgroups::V2 => {
                values.unified.insert("memory.swap.max".to_owned(), "0".to_owned());
            }
        }
    }
    values
}

/// Drops zero amounts, which are not limits.
fn set(mut amounts: Amounts) -> Amounts {
    amounts.retain(|name, amount| !matches!(name.as_str(), CPU | MEMORY) || !amount.is_zero());
    amounts
}

/// The sum of the resources of the containers, for runtimes that size the sandbox by it.
pub fn sandbox_resources(pod: &Pod, settings: &LimitSettings, machine: &Machine) -> LinuxResources {
    linux(&resources::pod_requests(pod), &resources::pod_limits(pod), settings, machine)
}

/// The overhead of a pod, as requests and limits.
pub fn overhead_resources(
    pod: &Pod,
    settings: &LimitSettings,
    machine: &Machine,
) -> LinuxResources {
    let overhead = resources::overhead(pod);
    if overhead.is_empty() {
        return LinuxResources::default();
    }
    linux(&overhead, &overhead, settings, machine)
}

fn linux(
    requests: &Amounts,
    limits: &Amounts,
    settings: &LimitSettings,
    machine: &Machine,
) -> LinuxResources {
    let cpu_limit = limits.get(CPU).map_or(0, Quantity::milli_value);
    let cpu_request = requests.get(CPU).map_or(cpu_limit, Quantity::milli_value);
    let mut values = LinuxResources {
        cpu_shares: cpu::shares(cpu_request).cast_signed(),
        memory_limit: limits.get(MEMORY).map_or(0, Quantity::value),
        ..LinuxResources::default()
    };
    if let Some(period) = settings.cpu_period {
        values.cpu_period = i64::try_from(period.as_micros()).unwrap_or(i64::MAX);
        values.cpu_quota = cpu::quota(cpu_limit, values.cpu_period);
    }
    if machine.cgroups == Cgroups::V2 && settings.oom_kills_all {
        values.unified = BTreeMap::from([("memory.oom.group".to_owned(), "1".to_owned())]);
    }
    values
}

/// Zero for sizes that the container does not request.
fn huge_pages(pages: HugePages, limits: &Amounts) -> HugePageLimit {
    let of_size = |name: &str| {
        let size = name.strip_prefix(HUGE_PAGES_PREFIX)?;
        Some(Quantity::parse(size).ok()?.value().cast_unsigned() == pages.size)
    };
    let wanted = limits.iter().find(|(name, _)| of_size(name) == Some(true));
    let limit = wanted.map_or(0, |(_, amount)| amount.value());
    HugePageLimit {
        page_size: huge_page_size(pages.size),
        limit: u64::try_from(limit).unwrap_or(0),
    }
}

/// The smaller the memory request of a container, the sooner it is killed.
fn oom_score_adj(pod: &Pod, container: &Container, memory: u64) -> i64 {
    if is_node_critical(pod) {
        return GUARANTEED;
    }
    match qos_class(pod) {
        QosClass::Guaranteed => return GUARANTEED,
        QosClass::BestEffort => return BEST_EFFORT,
        QosClass::Burstable => {}
    }
    let score = |requested: i64| match i64::try_from(memory) {
        Ok(memory) if memory > 0 => 1000 - requested.saturating_mul(1000) / memory,
        _ => 1000,
    };
    let left = unassigned_memory(pod);
    let request = |container: &Container| {
        left + resources::requests(container).get(MEMORY).map_or(0, Quantity::value)
    };
    let mut adjust = score(request(container));
    if is_sidecar(pod, container) {
        // A sidecar must outlive regular containers.
        let least = view::containers(pod).iter().map(request).min().unwrap_or(0);
        adjust = adjust.min(score(least));
    }
    // Between guaranteed and best effort.
    adjust.clamp(1000 + GUARANTEED, BEST_EFFORT - 1)
}

/// Each container's share of the pod-level memory request beyond the requests of containers.
fn unassigned_memory(pod: &Pod) -> i64 {
    let Some(whole) = resources::requests_of_whole(pod).get(MEMORY).map(Quantity::value) else {
        return 0;
    };
    let assigned = resources::containers_requests(pod).get(MEMORY).map_or(0, Quantity::value);
    let containers = view::containers(pod).len() + view::init_containers(pod).len();
    let containers = i64::try_from(containers).unwrap_or(i64::MAX).max(1);
    if whole == 0 { 0 } else { (whole - assigned) / containers }
}

fn is_sidecar(pod: &Pod, container: &Container) -> bool {
    let inits = view::init_containers(pod);
    inits.iter().any(|init| init.name == container.name && view::is_sidecar(init))
}

/// Static pods are critical anyway; the priority distinguishes them.
fn is_node_critical(pod: &Pod) -> bool {
    let class = view::spec(pod).and_then(|spec| spec.priority_class_name.as_deref());
    view::is_critical(pod) && class == Some("system-node-critical")
}
