//! How requests and limits become what the kernel is told.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};
use model::machine::{Cgroups, HugePages, Machine};
use model::wanted::{HugePageLimit, LinuxResources};
use podspec::quantity::Quantity;
use podspec::resources::{self, Amounts, CPU, HUGE_PAGES_PREFIX, MEMORY};
use podspec::{QosClass, qos_class, view};

/// Shares of one processor, and the fewest and most that the kernel knows.
const SHARES_PER_CPU: i64 = 1024;
const LEAST_SHARES: i64 = 2;
const MOST_SHARES: i64 = 262_144;
/// Microseconds; the kernel takes no shorter quota.
const LEAST_QUOTA: i64 = 1000;

/// How ready the kernel is to kill what is promised all its memory, and what is promised none.
const GUARANTEED: i64 = -997;
const BEST_EFFORT: i64 = 1000;

/// How the node limits its pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitSettings {
    /// Over which time processor limits are counted; none when they are not enforced.
    pub cpu_period: Option<Duration>,
    /// Whether a container dies as a whole when one of its processes gets no more memory. Only the
    /// second version of cgroups can.
    pub oom_kills_all: bool,
}

/// What a container may use.
pub fn container_resources(
    pod: &Pod,
    container: &Container,
    settings: &LimitSettings,
    machine: &Machine,
) -> LinuxResources {
    let (requests, limits) = (resources::requests(container), resources::limits(container));
    let mut told = linux(&requests, &limits, settings, machine);
    told.oom_score_adj = oom_score_adj(pod, container, machine.memory);
    told.huge_page_limits =
        machine.huge_pages.iter().map(|pages| huge_pages(*pages, &limits)).collect();
    if machine.swap_controller {
        // No pod uses swap unless the node is told otherwise.
        match machine.cgroups {
            Cgroups::V1 => told.memory_swap_limit = told.memory_limit,
            Cgroups::V2 => {
                told.unified.insert("memory.swap.max".to_owned(), "0".to_owned());
            }
        }
    }
    told
}

/// What the containers of a pod may use together, for runtimes that size a sandbox by it.
pub fn sandbox_resources(pod: &Pod, settings: &LimitSettings, machine: &Machine) -> LinuxResources {
    linux(&resources::pod_requests(pod), &resources::pod_limits(pod), settings, machine)
}

fn linux(
    requests: &Amounts,
    limits: &Amounts,
    settings: &LimitSettings,
    machine: &Machine,
) -> LinuxResources {
    let cpu_limit = limits.get(CPU).map_or(0, Quantity::milli_value);
    let cpu_request = requests.get(CPU).map_or(cpu_limit, Quantity::milli_value);
    let mut told = LinuxResources {
        cpu_shares: cpu_shares(cpu_request),
        memory_limit: limits.get(MEMORY).map_or(0, Quantity::value),
        ..LinuxResources::default()
    };
    if let Some(period) = settings.cpu_period {
        told.cpu_period = i64::try_from(period.as_micros()).unwrap_or(i64::MAX);
        told.cpu_quota = cpu_quota(cpu_limit, told.cpu_period);
    }
    if machine.cgroups == Cgroups::V2 && settings.oom_kills_all {
        told.unified = BTreeMap::from([("memory.oom.group".to_owned(), "1".to_owned())]);
    }
    told
}

/// The fewest for a container that asks for none, as the kernel would have it.
fn cpu_shares(milli: i64) -> i64 {
    (milli.saturating_mul(SHARES_PER_CPU) / 1000).clamp(LEAST_SHARES, MOST_SHARES)
}

fn cpu_quota(milli: i64, period: i64) -> i64 {
    if milli == 0 {
        return 0;
    }
    (milli.saturating_mul(period) / 1000).max(LEAST_QUOTA)
}

/// Nothing unless the container asks for it.
fn huge_pages(pages: HugePages, limits: &Amounts) -> HugePageLimit {
    let of_size = |name: &str| {
        let size = name.strip_prefix(HUGE_PAGES_PREFIX)?;
        Some(Quantity::parse(size).ok()?.value().cast_unsigned() == pages.size)
    };
    let wanted = limits.iter().find(|(name, _)| of_size(name) == Some(true));
    let limit = wanted.map_or(0, |(_, amount)| amount.value());
    HugePageLimit { page_size: size_name(pages.size), limit: u64::try_from(limit).unwrap_or(0) }
}

/// A size as the names of the kernel's control files have it.
fn size_name(bytes: u64) -> String {
    let mut size = bytes;
    let mut unit = "B";
    for larger in ["KB", "MB", "GB", "TB", "PB"] {
        if size < 1024 {
            break;
        }
        size /= 1024;
        unit = larger;
    }
    format!("{size}{unit}")
}

/// The less a container asks for, the sooner it is killed when it uses more.
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
    let request = |container: &Container| {
        resources::requests(container).get(MEMORY).map_or(0, Quantity::value)
    };
    let mut adjust = score(request(container));
    if is_sidecar(pod, container) {
        // It outlives whichever container it serves.
        let least = view::containers(pod).iter().map(request).min().unwrap_or(0);
        adjust = adjust.min(score(least));
    }
    // Between what is promised all and what is promised nothing.
    adjust.clamp(1000 + GUARANTEED, BEST_EFFORT - 1)
}

fn is_sidecar(pod: &Pod, container: &Container) -> bool {
    let inits = view::init_containers(pod);
    inits.iter().any(|init| init.name == container.name && view::is_sidecar(init))
}

/// Static pods are critical anyway; the class says how much.
fn is_node_critical(pod: &Pod) -> bool {
    let Some(spec) = view::spec(pod) else { return false };
    let critical = view::is_static(pod)
        || view::is_mirror(pod)
        || spec.priority.is_some_and(|priority| priority >= 2_000_000_000);
    critical && spec.priority_class_name.as_deref() == Some("system-node-critical")
}
