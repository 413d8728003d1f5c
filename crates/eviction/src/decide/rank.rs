//! Orders pods for eviction: the first one is evicted.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Volume};
use model::ids::{PodName, PodUid};
use model::quantity::Quantity;
use model::stats::{FsStats, PodStats, Summary};
use podspec::resources::{EPHEMERAL_STORAGE, MEMORY, overhead, pod_requests};
use podspec::view;

use super::layout::{CountedParts, DiskLayout};
use super::observation::{bytes, number};
use super::signal::{Resource, Signal};

/// The statistics of pods, by UID.
#[derive(Debug, Clone, Copy)]
pub struct PodUsage<'a> {
    pods: &'a [PodStats],
}

impl<'a> PodUsage<'a> {
    /// The pods of a summary.
    pub fn new(summary: &'a Summary) -> Self {
        Self { pods: &summary.pods }
    }

    /// The statistics of a pod, if there are any.
    pub fn get(&self, uid: &PodUid) -> Option<&'a PodStats> {
        self.pods.iter().find(|stats| stats.pod_ref.uid == *uid)
    }

    /// All statistics, for the lookup of many pods.
    pub(super) fn by_uid(&self) -> BTreeMap<&'a PodUid, &'a PodStats> {
        self.pods.iter().map(|stats| (&stats.pod_ref.uid, stats)).collect()
    }
}

/// A pod in the order of eviction, with the numbers that put it there.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranked {
    /// The pod, with its allocated resources.
    pub pod: Arc<Pod>,
    /// Its name.
    pub name: PodName,
    /// Its UID.
    pub uid: PodUid,
    /// Its priority.
    pub priority: i32,
    /// What it uses; `None` without statistics.
    pub usage: Option<i64>,
    /// What it requests; for process ids there is no request.
    pub request: i64,
    /// Whether it uses more than it requests.
    pub exceeds: bool,
    /// Whether it is critical and never evicted.
    pub critical: bool,
}

/// Orders pods for the eviction by a signal. First come pods that use more than they request, and before them those
/// without statistics; then lower priorities; then those that use most beyond their request.
pub fn rank(
    signal: Signal,
    layout: DiskLayout,
    pods: &[Arc<Pod>],
    usage: PodUsage<'_>,
) -> Vec<Ranked> {
    let (resource, counted) = (Resource::of(signal), layout.counted(signal));
    let stats = usage.by_uid();
    let mut ranked: Vec<Ranked> = pods
        .iter()
        .map(|pod| ranked(pod, resource, counted, stats.get(&view::uid(pod)).copied()))
        .collect();
    match resource {
        Resource::Pids => ranked.sort_by(|one, other| {
            let key = |pod: &Ranked| (pod.priority, pod.usage.is_some(), Reverse(pod.usage));
            key(one).cmp(&key(other)).then_with(|| one.name.cmp(&other.name))
        }),
        _ => ranked.sort_by(|one, other| {
            let key = |pod: &Ranked| {
                let beyond = pod.usage.map(|usage| usage.saturating_sub(pod.request));
                (pod.usage.is_some(), !pod.exceeds, pod.priority, Reverse(beyond))
            };
            key(one).cmp(&key(other)).then_with(|| one.name.cmp(&other.name))
        }),
    }
    ranked
}

fn ranked(
    pod: &Arc<Pod>,
    resource: Resource,
    counted: CountedParts,
    stats: Option<&PodStats>,
) -> Ranked {
    let (request, exceeds_over) = requests(pod, resource);
    let usage = stats.map(|stats| match resource {
        Resource::Memory => {
            let memory = stats.memory.as_ref();
            number(memory.and_then(|memory| memory.working_set_bytes).unwrap_or(0))
        }
        Resource::EphemeralStorage => disk_usage(pod, stats, counted, |fs| fs.used_bytes),
        Resource::Inodes => disk_usage(pod, stats, counted, |fs| fs.inodes_used),
        Resource::Pids => number(stats.processes.and_then(|one| one.count).unwrap_or(0)),
    });
    Ranked {
        pod: Arc::clone(pod),
        name: view::pod_name(pod),
        uid: view::uid(pod),
        priority: view::priority(pod).unwrap_or(0),
        usage,
        request: request.value(),
        exceeds: usage.is_some_and(|usage| bytes(usage) > exceeds_over),
        critical: view::is_critical(pod),
    }
}

/// The request that is subtracted from the usage, and the one that the usage must exceed. For inodes upstream
/// subtracts the request for bytes, and compares with zero.
fn requests(pod: &Pod, resource: Resource) -> (Quantity, Quantity) {
    match resource {
        Resource::Memory => {
            let request = request(pod, MEMORY);
            (request, request)
        }
        Resource::EphemeralStorage => {
            let request = request(pod, EPHEMERAL_STORAGE);
            (request, request)
        }
        Resource::Inodes => (request(pod, EPHEMERAL_STORAGE), Quantity::ZERO),
        Resource::Pids => (Quantity::ZERO, Quantity::ZERO),
    }
}

/// A request of the pod, with the overhead of a pod that requests any.
fn request(pod: &Pod, resource: &str) -> Quantity {
    let request = pod_requests(pod).get(resource).copied().unwrap_or(Quantity::ZERO);
    if request.is_zero() {
        return request;
    }
    request + overhead(pod).get(resource).copied().unwrap_or(Quantity::ZERO)
}

fn disk_usage(
    pod: &Pod,
    stats: &PodStats,
    counted: CountedParts,
    measure: fn(&FsStats) -> Option<u64>,
) -> i64 {
    let used =
        |fs: Option<&FsStats>, counts: bool| fs.filter(|_| counts).and_then(measure).unwrap_or(0);
    let containers = stats.containers.iter().map(|container| {
        let rootfs = used(container.rootfs.as_ref(), counted.rootfs);
        rootfs.saturating_add(used(container.logs.as_ref(), counted.logs))
    });
    let local = view::spec(pod).and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    let local = local.iter().filter(|volume| is_local(volume));
    let volumes = local.map(|volume| {
        let stats = stats.volumes.iter().find(|stats| stats.name == volume.name);
        used(stats.map(|stats| &stats.fs), counted.volumes)
    });
    number(containers.chain(volumes).fold(0, u64::saturating_add))
}

/// Whether the volume is on the disk of the node. Others are in memory, or elsewhere.
fn is_local(volume: &Volume) -> bool {
    let on_disk = volume
        .empty_dir
        .as_ref()
        .is_some_and(|source| source.medium.as_deref().unwrap_or_default().is_empty());
    on_disk
        || volume.host_path.is_some()
        || volume.config_map.is_some()
        || volume.git_repo.is_some()
}

#[cfg(test)]
#[path = "rank_tests.rs"]
mod tests;
