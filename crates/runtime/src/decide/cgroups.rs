//! The names of pod cgroups and their values.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use model::cgroup::{CgroupName, CgroupNameError, CgroupValues, cpu};
use model::ids::PodUid;
use podspec::quantity::Quantity;
use podspec::resources::{self, Amounts, CPU, HUGE_PAGES_PREFIX, MEMORY};
use podspec::{QosClass, qos_class, view};

/// The prefix of the name of a pod cgroup; the pod's UID follows.
const POD: &str = "pod";

/// The value of an unlimited CPU quota in classes.
const UNLIMITED_HUGE_PAGES: u64 = 1 << 62;

/// The settings of all pod cgroups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodCgroupSettings {
    /// The cgroup of all pods.
    pub root: CgroupName,
    /// The CFS quota period; `None` if CPU limits are not enforced.
    pub cpu_period: Option<Duration>,
    /// The PID limit of a pod, if there is one.
    pub pids_limit: Option<u64>,
    /// The huge page sizes of the node.
    pub huge_page_sizes: Vec<u64>,
}

/// The cgroup of a QoS class. Guaranteed pods are directly below the root.
pub fn class_cgroup(root: &CgroupName, class: QosClass) -> CgroupName {
    let name = match class {
        QosClass::Guaranteed => return root.clone(),
        QosClass::Burstable => "burstable",
        QosClass::BestEffort => "besteffort",
    };
    root.child(name).expect("a plain word is a name")
}

/// The classes with their own cgroups.
pub const CLASSES: [QosClass; 2] = [QosClass::Burstable, QosClass::BestEffort];

/// The cgroup of a pod.
pub fn pod_cgroup(root: &CgroupName, pod: &Pod) -> Result<CgroupName, CgroupNameError> {
    class_cgroup(root, qos_class(pod)).child(&format!("{POD}{}", view::uid(pod)))
}

/// The possible cgroups of a pod, one for each class.
pub fn cgroups_of_pod(root: &CgroupName, uid: &PodUid) -> Vec<CgroupName> {
    let parents = CLASSES.into_iter().chain([QosClass::Guaranteed]);
    let own = format!("{POD}{uid}");
    parents.filter_map(|class| class_cgroup(root, class).child(&own).ok()).collect()
}

/// The UID of the pod of a cgroup, if it is a pod's.
pub fn pod_of_cgroup(name: &CgroupName) -> Option<PodUid> {
    name.last().strip_prefix(POD).filter(|uid| !uid.is_empty()).map(PodUid::from)
}

/// The values of a pod's cgroup. It has a limit only if all containers have one.
pub fn pod_cgroup_values(pod: &Pod, settings: &PodCgroupSettings) -> CgroupValues {
    let requests = resources::pod_requests_with_overhead(pod);
    let limits = resources::pod_limits_with_overhead(pod);
    let milli = |amounts: &Amounts| amounts.get(CPU).map_or(0, Quantity::milli_value);
    let memory = limits.get(MEMORY).map_or(0, Quantity::value);
    let mut values = CgroupValues {
        cpu_shares: Some(cpu::shares(milli(&requests))),
        pids_limit: settings.pids_limit,
        huge_pages: huge_pages(&requests, &settings.huge_page_sizes),
        ..CgroupValues::default()
    };
    let (all_cpu, all_memory) = match qos_class(pod) {
        QosClass::BestEffort => {
            values.cpu_shares = Some(cpu::LEAST_SHARES);
            (false, false)
        }
        QosClass::Burstable => (is_limited(pod, CPU), is_limited(pod, MEMORY)),
        QosClass::Guaranteed => (true, true),
    };
    if all_cpu {
        match settings.cpu_period {
            Some(period) => {
                let period = i64::try_from(period.as_micros()).unwrap_or(i64::MAX);
                values.cpu_quota = Some(cpu::quota(milli(&limits), period));
                values.cpu_period = Some(period.unsigned_abs());
            }
            None => values.cpu_quota = Some(-1),
        }
    }
    if all_memory {
        values.memory_limit = Some(memory.unsigned_abs()).filter(|limit| *limit > 0);
    }
    values
}

/// Whether the pod, or each of its containers, has a limit.
fn is_limited(pod: &Pod, name: &str) -> bool {
    let has = |limits: &Amounts| limits.get(name).is_some_and(|amount| !amount.is_zero());
    let mut containers = view::containers(pod).iter().chain(view::init_containers(pod));
    has(&resources::limits_of_whole(pod))
        || containers.all(|container| has(&resources::limits(container)))
}

/// The limits by huge page size; zero for sizes that the pod does not request.
fn huge_pages(requests: &Amounts, sizes: &[u64]) -> BTreeMap<u64, u64> {
    let mut limits: BTreeMap<u64, u64> = sizes.iter().map(|size| (*size, 0)).collect();
    for (name, amount) in requests {
        let size = name.strip_prefix(HUGE_PAGES_PREFIX).and_then(|size| Quantity::parse(size).ok());
        let Some(size) = size.map(|size| size.value().unsigned_abs()) else { continue };
        if let Some(limit) = limits.get_mut(&size) {
            *limit += amount.value().unsigned_abs();
        }
    }
    limits
}

/// The millicores that a pod adds to its class.
pub fn class_share(pod: &Pod) -> i64 {
    if qos_class(pod) != QosClass::Burstable {
        return 0;
    }
    let requests = resources::pod_requests_with_overhead(pod);
    requests.get(CPU).map_or(0, Quantity::milli_value)
}

/// The CPU request in millicores of a pod whose cgroup has these values. The minimum of shares means
/// none.
pub fn requested(values: &CgroupValues) -> i64 {
    let shares = values.cpu_shares.filter(|shares| *shares > cpu::LEAST_SHARES).unwrap_or(0);
    cpu::milli_of_shares(i64::try_from(shares).unwrap_or(i64::MAX))
}

/// The values of the cgroup of a class whose pods request this many millicores.
pub fn class_values(class: QosClass, milli: i64, settings: &PodCgroupSettings) -> CgroupValues {
    let shares = match class {
        QosClass::BestEffort => cpu::LEAST_SHARES,
        QosClass::Burstable | QosClass::Guaranteed => cpu::shares(milli),
    };
    let sizes = settings.huge_page_sizes.iter();
    CgroupValues {
        cpu_shares: Some(shares),
        huge_pages: sizes.map(|size| (*size, UNLIMITED_HUGE_PAGES)).collect(),
        ..CgroupValues::default()
    }
}

#[cfg(test)]
#[path = "cgroups_tests.rs"]
mod tests;
