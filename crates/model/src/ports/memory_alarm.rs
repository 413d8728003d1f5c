//! Reports of the kernel that memory is short.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::ports::cgroups::CgroupError;

/// Waits for reports of the kernel. A wait that is dropped leaves nothing behind. The error of a kernel without such
/// reports is [unsupported](CgroupError::is_unsupported).
#[async_trait]
pub trait MemoryAlarm: Debug + Send + Sync {
    /// Waits until processes of a cgroup are delayed because memory is short (pressure stall information). The path is that
    /// from the root of the hierarchy; `/` is the whole machine.
    async fn stalled(&self, cgroup: &str) -> Result<(), CgroupError>;

    /// Waits until the memory usage of a cgroup crosses a number of bytes, in either direction; cgroup v1 only.
    async fn crossed(&self, cgroup: &str, bytes: u64) -> Result<(), CgroupError>;
}
