//! Builds pods and their statistics for tests.

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use model::stats::{
    ContainerStats, FsStats, MemoryStats, PodReference, PodStats, ProcessStats, Summary,
    VolumeStats,
};
use testkit::pods::PodBuilder;

/// Amounts of resources as the API has them.
pub(crate) fn amounts(
    pairs: &[(&str, &str)],
) -> Option<std::collections::BTreeMap<String, Quantity>> {
    let amounts =
        pairs.iter().map(|(name, text)| ((*name).to_owned(), Quantity((*text).to_owned())));
    (!pairs.is_empty()).then(|| amounts.collect())
}

/// Sets requests and limits of the last container.
pub(crate) fn with_resources(
    builder: PodBuilder,
    requests: &[(&str, &str)],
    limits: &[(&str, &str)],
) -> PodBuilder {
    let (requests, limits) = (amounts(requests), amounts(limits));
    builder.spec(|spec| {
        let container = spec.containers.last_mut().expect("the pod has a container");
        container.resources = Some(ResourceRequirements { requests, limits, claims: None });
    })
}

/// Statistics of a pod without any values.
pub(crate) fn no_stats(pod: &Pod) -> PodStats {
    PodStats {
        pod_ref: PodReference { name: podspec::view::pod_name(pod), uid: podspec::view::uid(pod) },
        start_time: None,
        containers: Vec::new(),
        cpu: None,
        memory: None,
        io: None,
        network: None,
        volumes: Vec::new(),
        ephemeral_storage: None,
        processes: None,
        swap: None,
    }
}

/// Memory in use.
#[expect(clippy::unnecessary_wraps, reason = "the fields are optional")]
pub(crate) fn memory(bytes: u64) -> Option<MemoryStats> {
    Some(MemoryStats { working_set_bytes: Some(bytes), ..MemoryStats::default() })
}

/// Used bytes and inodes.
#[expect(clippy::unnecessary_wraps, reason = "the fields are optional")]
pub(crate) fn used(bytes: u64, inodes: u64) -> Option<FsStats> {
    Some(FsStats { used_bytes: Some(bytes), inodes_used: Some(inodes), ..FsStats::default() })
}

/// The writable layer and the logs of a container.
pub(crate) fn container(name: &str, rootfs: u64, logs: u64) -> ContainerStats {
    ContainerStats {
        name: name.to_owned(),
        rootfs: used(rootfs, rootfs / 10),
        logs: used(logs, 1),
        ..ContainerStats::default()
    }
}

/// A volume.
pub(crate) fn volume(name: &str, bytes: u64) -> VolumeStats {
    let fs = used(bytes, bytes / 10).unwrap_or_default();
    VolumeStats { fs, name: name.to_owned(), pvc_ref: None }
}

/// Processes.
#[expect(clippy::unnecessary_wraps, reason = "the fields are optional")]
pub(crate) fn processes(count: u64) -> Option<ProcessStats> {
    Some(ProcessStats { count: Some(count) })
}

/// A summary of these pods.
pub(crate) fn summary(pods: Vec<PodStats>) -> Summary {
    Summary { pods, ..Summary::default() }
}
