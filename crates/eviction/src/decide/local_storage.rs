//! Limits of local storage: of volumes, pods and containers.

use k8s_openapi::api::core::v1::{Container, Pod, Volume};
use model::quantity::Quantity;
use model::stats::{FsStats, PodStats};
use podspec::resources::{EPHEMERAL_STORAGE, limits, pod_limits_with_overhead};
use podspec::view;

use super::layout::DiskLayout;
use super::observation::{bytes, number};

/// A limit that a pod exceeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The signal, as the metric names it.
    pub signal: &'static str,
    /// The message of status and event.
    pub message: String,
    /// The volume or container; empty for the pod.
    pub name: String,
    /// What is used.
    pub used: Quantity,
    /// The limit.
    pub limit: Quantity,
}

const EMPTY_DIR: &str = "emptydirfs.limit";
const POD: &str = "ephemeralpodfs.limit";
const CONTAINER: &str = "ephemeralcontainerfs.limit";

/// Whether a pod has a limit of local storage, so that its statistics are needed. Called for every pod in every round,
/// so it adds nothing up.
pub fn has_limit(pod: &Pod) -> bool {
    let mut containers = view::containers(pod).iter().chain(view::init_containers(pod));
    let limits_storage = |container: &Container| {
        let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        limits.is_some_and(|limits| limits.contains_key(EPHEMERAL_STORAGE))
    };
    volumes(pod).iter().any(|volume| size_limit(volume).is_some()) || containers.any(limits_storage)
}

/// The first limit that a pod exceeds: of its volumes, of the whole pod, of its containers.
pub fn violation(pod: &Pod, stats: &PodStats, layout: DiskLayout) -> Option<Violation> {
    let of_volume = volumes(pod).iter().find_map(|volume| empty_dir(volume, stats));
    of_volume.or_else(|| whole_pod(pod, stats)).or_else(|| container(pod, stats, layout))
}

fn volumes(pod: &Pod) -> &[Volume] {
    view::spec(pod).and_then(|spec| spec.volumes.as_deref()).unwrap_or_default()
}

/// The limit of an `emptyDir` volume. Zero is no limit.
fn size_limit(volume: &Volume) -> Option<Quantity> {
    let limit = volume.empty_dir.as_ref()?.size_limit.as_ref()?;
    Quantity::parse(&limit.0).ok().filter(|limit| *limit > Quantity::ZERO)
}

/// The limit of a pod, with init containers and overhead.
fn pod_limit(pod: &Pod) -> Option<Quantity> {
    pod_limits_with_overhead(pod).get(EPHEMERAL_STORAGE).copied()
}

fn empty_dir(volume: &Volume, stats: &PodStats) -> Option<Violation> {
    let limit = size_limit(volume)?;
    let stats = stats.volumes.iter().find(|stats| stats.name == volume.name)?;
    let used = bytes(number(stats.fs.used_bytes?));
    (used > limit).then(|| Violation {
        signal: EMPTY_DIR,
        message: format!(
            "Usage of EmptyDir volume \"{}\" exceeds the limit \"{limit}\". ",
            volume.name
        ),
        name: volume.name.clone(),
        used,
        limit,
    })
}

fn whole_pod(pod: &Pod, stats: &PodStats) -> Option<Violation> {
    let limit = pod_limit(pod)?;
    let used = stats.ephemeral_storage.as_ref().and_then(|fs| fs.used_bytes).unwrap_or(0);
    let used = bytes(number(used));
    (used > limit).then(|| Violation {
        signal: POD,
        message: format!(
            "Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "
        ),
        name: String::new(),
        used,
        limit,
    })
}

fn container(pod: &Pod, stats: &PodStats, layout: DiskLayout) -> Option<Violation> {
    let used = |fs: Option<&FsStats>| fs.and_then(|fs| fs.used_bytes).unwrap_or(0);
    stats.containers.iter().find_map(|stats| {
        let mut containers = view::containers(pod).iter();
        let container = containers.find(|container| container.name == stats.name)?;
        let limit = *limits(container).get(EPHEMERAL_STORAGE).filter(|limit| !limit.is_zero())?;
        let rootfs = stats.rootfs.as_ref().filter(|_| layout.limits_count_rootfs());
        let used = used(rootfs).saturating_add(used(stats.logs.as_ref()));
        let used = bytes(number(used));
        (used > limit).then(|| Violation {
            signal: CONTAINER,
            message: format!(
                "Container {} exceeded its local ephemeral storage limit \"{limit}\". ",
                stats.name
            ),
            name: stats.name.clone(),
            used,
            limit,
        })
    })
}

#[cfg(test)]
#[path = "local_storage_tests.rs"]
mod tests;
