//! How much a sandbox or container may use.

use std::collections::BTreeMap;

/// Limits as the kernel takes them. Zero and empty leave a thing alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinuxResources {
    /// Microseconds over which processor time is counted.
    pub cpu_period: i64,
    /// Microseconds of processor time in each period.
    pub cpu_quota: i64,
    /// Share of the processors when they are short.
    pub cpu_shares: i64,
    /// Bytes of memory.
    pub memory_limit: i64,
    /// Bytes of memory and swap together, as the first version of cgroups counts them.
    pub memory_swap_limit: i64,
    /// How readily the kernel kills it when memory is short, from -1000 to 1000.
    pub oom_score_adj: i64,
    /// Limits for each size of huge pages.
    pub huge_page_limits: Vec<HugePageLimit>,
    /// Files of the second version of cgroups and what is written to them.
    pub unified: BTreeMap<String, String>,
}

/// How much of the huge pages of a size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HugePageLimit {
    /// The size as the kernel's control files name it: `2MB`.
    pub page_size: String,
    /// Bytes.
    pub limit: u64,
}
