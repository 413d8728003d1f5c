//! Cgroups: their names and values.

pub mod cpu;
mod name;
pub mod usage;

use std::collections::BTreeMap;

pub use name::{CgroupDriver, CgroupName, CgroupNameError};

/// Values of a cgroup. `None` and missing values are not changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CgroupValues {
    /// CPU shares, as in cgroup v1.
    pub cpu_shares: Option<u64>,
    /// CFS quota in microseconds per period; -1 for no limit.
    pub cpu_quota: Option<i64>,
    /// CFS period in microseconds.
    pub cpu_period: Option<u64>,
    /// CPUs, as the kernel lists them: `0-3,8`.
    pub cpu_set: Option<String>,
    /// Memory limit in bytes; `None` for no limit.
    pub memory_limit: Option<u64>,
    /// The PID limit.
    pub pids_limit: Option<u64>,
    /// The limit in bytes for each huge page size in bytes.
    pub huge_pages: BTreeMap<u64, u64>,
}

impl CgroupValues {
    /// The values of a cgroup with these values after others are written.
    #[must_use]
    pub fn with(&self, written: &Self) -> Self {
        let mut huge_pages = self.huge_pages.clone();
        huge_pages.extend(&written.huge_pages);
        Self {
            cpu_shares: written.cpu_shares.or(self.cpu_shares),
            cpu_quota: written.cpu_quota.or(self.cpu_quota),
            cpu_period: written.cpu_period.or(self.cpu_period),
            cpu_set: written.cpu_set.clone().or_else(|| self.cpu_set.clone()),
            memory_limit: written.memory_limit.or(self.memory_limit),
            pids_limit: written.pids_limit.or(self.pids_limit),
            huge_pages,
        }
    }
}

/// The huge page size as in the names of the kernel's control files: `2MB`.
pub fn huge_page_size(bytes: u64) -> String {
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

#[cfg(test)]
mod tests {
    use super::huge_page_size;

    #[test]
    fn huge_page_sizes_have_the_names_of_the_kernel() {
        let rows = [(64 << 10, "64KB"), (2 << 20, "2MB"), (1 << 30, "1GB"), (512, "512B")];
        for (bytes, expected) in rows {
            assert_eq!(huge_page_size(bytes), expected);
        }
    }
}
