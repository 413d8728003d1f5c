//! How large a volume in memory may grow.

use k8s_openapi::api::core::v1::Pod;
use podspec::resources::pod_limits;

/// The size of a volume in memory: the minimum of the node's allocatable memory, its pod's memory limit,
/// and its size limit.
pub fn memory_size(pod: &Pod, allocatable: u64, size_limit: Option<u64>) -> u64 {
    let of_pod = pod_limits(pod).get("memory").and_then(|limit| u64::try_from(limit.value()).ok());
    let smaller = |size: u64, limit: Option<u64>| match limit {
        Some(limit) if limit > 0 && limit <= size => limit,
        _ => size,
    };
    smaller(smaller(allocatable, of_pod), size_limit)
}
