//! Resources of a sandbox or container.

use std::collections::BTreeMap;

/// Resources in units of the kernel. Zero and empty values are not set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinuxResources {
    /// CFS period in microseconds.
    pub cpu_period: i64,
    /// CFS quota in microseconds per period.
    pub cpu_quota: i64,
    /// CPU shares.
    pub cpu_shares: i64,
    /// Memory limit in bytes.
    pub memory_limit: i64,
    /// Limit of memory and swap in bytes, as in cgroup v1.
    pub memory_swap_limit: i64,
    /// The OOM score adjustment, from -1000 to 1000.
    pub oom_score_adj: i64,
    /// Huge page limits by size.
    pub huge_page_limits: Vec<HugePageLimit>,
    /// Files of cgroup v2 with their values.
    pub unified: BTreeMap<String, String>,
}

/// The limit of a huge page size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HugePageLimit {
    /// The size as the kernel's control files name it: `2MB`.
    pub page_size: String,
    /// The limit in bytes.
    pub limit: u64,
}
