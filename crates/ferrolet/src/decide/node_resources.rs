//! Capacity and allocatable of the node, and the cgroup limits that follow.

use std::collections::BTreeMap;

use config::{
    Amount, EvictionSignal, KubeletConfiguration, NodeAllocatableEnforcement, ReservedResource,
};
use model::cgroup::{CgroupDriver, CgroupName, CgroupNameError, CgroupValues, cpu};
use model::machine::Machine;
use podspec::quantity::Quantity;
use podspec::resources::{Amounts, CPU, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY, PODS};

/// The node's resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeResources {
    /// The capacity.
    pub(crate) capacity: Amounts,
    /// The allocatable resources.
    pub(crate) allocatable: Amounts,
}

/// Settings of the node that only flags have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NodeFlags {
    /// `--seccomp-default`; the field of the same name has the same effect.
    pub(crate) seccomp_default: bool,
    /// `--experimental-allocatable-ignore-eviction`: pods can request what eviction thresholds reserve.
    pub(crate) ignores_eviction: bool,
}

/// The reservations exceed the capacity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid Node Allocatable configuration. {0}")]
pub(crate) struct TooMuchReserved(String);

/// The resources of a node on a machine with a disk of this many bytes.
pub(crate) fn node_resources(
    config: &KubeletConfiguration,
    flags: NodeFlags,
    machine: &Machine,
    disk: u64,
) -> NodeResources {
    let mut capacity = vec![
        (CPU.to_owned(), i128::from(machine.cpus) * 1000),
        (MEMORY.to_owned(), machine.memory.into()),
        (PODS.to_owned(), most_pods(config, machine).into()),
    ];
    if config.local_storage_capacity_isolation {
        capacity.push((EPHEMERAL_STORAGE.to_owned(), disk.into()));
    }
    let pages = machine.huge_pages.iter();
    capacity.extend(pages.map(|pages| (huge_pages(pages.size), huge_bytes(pages))));
    let all_huge: i128 = machine.huge_pages.iter().map(huge_bytes).sum();
    let left = |(name, amount): &(String, i128)| {
        let mut left = (amount - reserved_amount(config, flags, name, *amount)).max(0);
        if name == MEMORY {
            left = (left - all_huge).max(0);
        }
        (name.clone(), left)
    };
    let allocatable: Vec<(String, i128)> = capacity.iter().map(left).collect();
    NodeResources { capacity: amounts(capacity), allocatable: amounts(allocatable) }
}

/// Checks that the reservations do not exceed the capacity.
pub(crate) fn check_reserved(
    config: &KubeletConfiguration,
    flags: NodeFlags,
    capacity: &Amounts,
) -> Result<(), TooMuchReserved> {
    let mut problems = Vec::new();
    for (name, had) in capacity {
        let capacity_units = if name == CPU { had.milli_value() } else { had.value() }.into();
        let kept = reserved_amount(config, flags, name, capacity_units);
        if kept > capacity_units {
            let kept = amount(name, kept);
            problems.push(format!(
                "Resource {name:?} has a reservation of {kept} but capacity of {had}. Expected \
                 capacity >= reservation."
            ));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(TooMuchReserved(problems.join(" "))) }
}

/// The part of a resource that pods cannot request.
fn reserved_amount(
    config: &KubeletConfiguration,
    flags: NodeFlags,
    name: &str,
    capacity: i128,
) -> i128 {
    let (resource, signal) = match name {
        CPU => (ReservedResource::Cpu, None),
        MEMORY => (ReservedResource::Memory, Some(EvictionSignal::MemoryAvailable)),
        EPHEMERAL_STORAGE => {
            (ReservedResource::EphemeralStorage, Some(EvictionSignal::NodeFsAvailable))
        }
        _ => return 0,
    };
    let signal = signal.filter(|_| !flags.ignores_eviction);
    let threshold = signal.and_then(|signal| config.eviction_hard.get(&signal));
    reserved(config, resource) + threshold.map_or(0, |amount| bytes_of(amount, capacity))
}

/// The amount of a resource that is reserved for the system and for Kubernetes; CPU in millicores.
fn reserved(config: &KubeletConfiguration, resource: ReservedResource) -> i128 {
    if resource == ReservedResource::Cpu
        && let Some(cpus) = config.reserved_cpus()
    {
        return 1000 * i128::try_from(cpus).unwrap_or(i128::MAX / 1000);
    }
    let lists = [&config.kube_reserved, &config.system_reserved];
    let each = lists.iter().filter_map(|list| list.get(&resource));
    each.map(|amount| units(resource, amount)).sum()
}

fn units(resource: ReservedResource, amount: &Quantity) -> i128 {
    match resource {
        ReservedResource::Cpu => amount.milli_value().into(),
        _ => amount.value().into(),
    }
}

/// A percentage of an amount, with upstream's precision.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a share of some bytes, rounded as upstream does"
)]
fn bytes_of(amount: &Amount, capacity: i128) -> i128 {
    match amount {
        Amount::Quantity(quantity) => quantity.value().into(),
        Amount::Percentage(share) => {
            let share = share.percent() as f32 / 100.0;
            (capacity as f64 * f64::from(share)) as i128
        }
    }
}

fn most_pods(config: &KubeletConfiguration, machine: &Machine) -> u32 {
    match config.pods_per_core {
        0 => config.max_pods,
        per_core => per_core.saturating_mul(machine.cpus).min(config.max_pods),
    }
}

fn huge_bytes(pages: &model::machine::HugePages) -> i128 {
    i128::from(pages.size) * i128::from(pages.count)
}

/// The resource of huge pages of a size: `hugepages-2Mi`.
fn huge_pages(size: u64) -> String {
    let mut size = size;
    let mut unit = "";
    for larger in ["Ki", "Mi", "Gi", "Ti"] {
        if !size.is_multiple_of(1024) || size == 0 {
            break;
        }
        size /= 1024;
        unit = larger;
    }
    format!("{HUGE_PAGES_PREFIX}{size}{unit}")
}

fn amounts(numbers: Vec<(String, i128)>) -> Amounts {
    numbers.into_iter().map(|(name, number)| (name.clone(), amount(&name, number))).collect()
}

fn amount(name: &str, number: i128) -> Quantity {
    let unit = if name == CPU { "m" } else { "" };
    Quantity::parse(&format!("{number}{unit}")).expect("a number is a quantity")
}

/// A reserved cgroup, and the values written to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReservedCgroup {
    /// Its purpose, such as `System Reserved`.
    pub(crate) purpose: &'static str,
    /// Its name in the configuration.
    pub(crate) setting: String,
    pub(crate) name: CgroupName,
    pub(crate) values: CgroupValues,
}

/// The values of the cgroup of all pods: the capacity, or allocatable if that is enforced. Eviction thresholds are not
/// subtracted: they leave room for the kernel, and eviction enforces them.
pub(crate) fn values_for_pods(config: &KubeletConfiguration, machine: &Machine) -> CgroupValues {
    let is_enforced = config.enforce_node_allocatable.contains(&NodeAllocatableEnforcement::Pods);
    let left = |capacity: i128, resource: ReservedResource| {
        let kept = if is_enforced { reserved(config, resource) } else { 0 };
        u64::try_from((capacity - kept).max(0)).unwrap_or(u64::MAX)
    };
    let milli = left(i128::from(machine.cpus) * 1000, ReservedResource::Cpu);
    let pages = machine.huge_pages.iter();
    CgroupValues {
        cpu_shares: Some(cpu::shares(i64::try_from(milli).unwrap_or(i64::MAX))),
        cpu_set: cpu_set(machine),
        memory_limit: Some(left(machine.memory.into(), ReservedResource::Memory)),
        pids_limit: machine.most_pids.map(|most| left(most.into(), ReservedResource::Pid)),
        huge_pages: pages.map(|pages| (pages.size, pages.size * pages.count)).collect(),
        ..CgroupValues::default()
    }
}

/// CPU shares are written also without a limit: systemd disables the controller of a slice without a value.
fn cpu_set(machine: &Machine) -> Option<String> {
    Some(machine.cpu_set.clone()).filter(|set| !set.is_empty())
}

/// The cgroups that the reservations limit.
pub(crate) fn reserved_cgroups(
    config: &KubeletConfiguration,
    machine: &Machine,
    driver: CgroupDriver,
) -> Result<Vec<ReservedCgroup>, CgroupNameError> {
    use NodeAllocatableEnforcement as Enforce;
    let system = (&config.system_reserved_cgroup, &config.system_reserved);
    let kube = (&config.kube_reserved_cgroup, &config.kube_reserved);
    let all = [
        (Enforce::SystemReserved, "System Reserved", system, false),
        (Enforce::KubeReserved, "Kube Reserved", kube, false),
        (Enforce::SystemReservedCompressible, "System Reserved Compressible", system, true),
        (Enforce::KubeReservedCompressible, "Kube Reserved Compressible", kube, true),
    ];
    let enforced = all.iter().filter(|row| config.enforce_node_allocatable.contains(&row.0));
    let each = enforced.map(|(_, purpose, (setting, reserved), compressible)| {
        let of = |resource: ReservedResource| {
            let amount = reserved.get(&resource)?;
            u64::try_from(units(resource, amount)).ok()
        };
        let milli = of(ReservedResource::Cpu).and_then(|milli| i64::try_from(milli).ok());
        let mut values = CgroupValues {
            cpu_shares: milli.map(cpu::shares),
            cpu_set: cpu_set(machine),
            ..CgroupValues::default()
        };
        if !compressible {
            values.memory_limit = of(ReservedResource::Memory);
            values.pids_limit = of(ReservedResource::Pid);
            let sizes = machine.huge_pages.iter().map(|pages| (pages.size, 0));
            values.huge_pages = sizes.collect::<BTreeMap<_, _>>();
        }
        let name = CgroupName::at(driver, setting)?;
        Ok(ReservedCgroup { purpose, setting: (*setting).clone(), name, values })
    });
    each.collect()
}

#[cfg(test)]
#[path = "node_resources_tests.rs"]
mod tests;
