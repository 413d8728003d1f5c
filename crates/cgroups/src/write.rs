//! Maps values to control files.

use model::cgroup::{CgroupValues, cpu, huge_page_size};
use model::machine::Cgroups as Version;

/// A value for a control file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    /// The controller of the file.
    pub(crate) controller: &'static str,
    pub(crate) file: String,
    pub(crate) content: String,
    /// Whether the kernel may lack the file.
    pub(crate) optional: bool,
}

impl Write {
    fn new(controller: &'static str, file: &str, content: &impl ToString) -> Self {
        let (file, content) = (file.to_owned(), content.to_string());
        Self { controller, file, content, optional: false }
    }
}

/// The writes for these values, in order.
pub(crate) fn writes(version: Version, values: &CgroupValues) -> Vec<Write> {
    let mut writes = match version {
        Version::V1 => v1(values),
        Version::V2 => v2(values),
    };
    let suffix = match version {
        Version::V1 => "limit_in_bytes",
        Version::V2 => "max",
    };
    for (size, limit) in &values.huge_pages {
        let size = huge_page_size(*size);
        writes.push(Write::new("hugetlb", &format!("hugetlb.{size}.{suffix}"), limit));
        // Reservations are limited too, if the kernel supports that.
        let reserved = format!("hugetlb.{size}.rsvd.{suffix}");
        writes.push(Write { optional: true, ..Write::new("hugetlb", &reserved, limit) });
    }
    writes
}

fn v1(values: &CgroupValues) -> Vec<Write> {
    let mut writes = Vec::new();
    if let Some(cpus) = &values.cpu_set {
        writes.push(Write::new("cpuset", "cpuset.cpus", cpus));
    }
    if let Some(limit) = values.memory_limit {
        writes.push(Write::new("memory", "memory.limit_in_bytes", &limit));
    }
    if let Some(shares) = values.cpu_shares {
        writes.push(Write::new("cpu", "cpu.shares", &shares));
    }
    if let Some(period) = values.cpu_period {
        writes.push(Write::new("cpu", "cpu.cfs_period_us", &period));
    }
    if let Some(quota) = values.cpu_quota.filter(|quota| *quota != 0) {
        writes.push(Write::new("cpu", "cpu.cfs_quota_us", &quota));
    }
    writes.extend(values.pids_limit.map(pids));
    writes
}

fn v2(values: &CgroupValues) -> Vec<Write> {
    /// The kernel's default period.
    const PERIOD: u64 = 100_000;
    let mut writes: Vec<Write> = values.pids_limit.map(pids).into_iter().collect();
    if let Some(limit) = values.memory_limit {
        writes.push(Write::new("memory", "memory.max", &limit));
    }
    if let Some(shares) = values.cpu_shares {
        writes.push(Write::new("cpu", "cpu.weight", &cpu::weight(shares)));
    }
    if values.cpu_quota.is_some_and(|quota| quota != 0) || values.cpu_period.is_some() {
        let quota = values.cpu_quota.filter(|quota| *quota > 0);
        let quota = quota.map_or_else(|| "max".to_owned(), |quota| quota.to_string());
        let period = values.cpu_period.unwrap_or(PERIOD);
        writes.push(Write::new("cpu", "cpu.max", &format!("{quota} {period}")));
    }
    if let Some(cpus) = &values.cpu_set {
        writes.push(Write::new("cpuset", "cpuset.cpus", cpus));
    }
    writes
}

/// At least one: systemd has no limit of zero.
fn pids(limit: u64) -> Write {
    Write::new("pids", "pids.max", &limit.max(1))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn written(version: Version, values: &CgroupValues) -> Vec<(String, String)> {
        writes(version, values).into_iter().map(|write| (write.file, write.content)).collect()
    }

    fn rows(rows: &[(&str, &str)]) -> Vec<(String, String)> {
        rows.iter().map(|(file, content)| ((*file).to_owned(), (*content).to_owned())).collect()
    }

    #[test]
    fn each_value_is_written_to_its_file() {
        let values = CgroupValues {
            cpu_shares: Some(1024),
            cpu_quota: Some(50_000),
            cpu_period: Some(100_000),
            cpu_set: Some("0-3".to_owned()),
            memory_limit: Some(1 << 20),
            pids_limit: Some(0),
            huge_pages: BTreeMap::from([(2 << 20, 4 << 20)]),
        };
        let v1 = [
            ("cpuset.cpus", "0-3"),
            ("memory.limit_in_bytes", "1048576"),
            ("cpu.shares", "1024"),
            ("cpu.cfs_period_us", "100000"),
            ("cpu.cfs_quota_us", "50000"),
            ("pids.max", "1"),
            ("hugetlb.2MB.limit_in_bytes", "4194304"),
            ("hugetlb.2MB.rsvd.limit_in_bytes", "4194304"),
        ];
        assert_eq!(written(Version::V1, &values), rows(&v1));
        let v2 = [
            ("pids.max", "1"),
            ("memory.max", "1048576"),
            ("cpu.weight", "39"),
            ("cpu.max", "50000 100000"),
            ("cpuset.cpus", "0-3"),
            ("hugetlb.2MB.max", "4194304"),
            ("hugetlb.2MB.rsvd.max", "4194304"),
        ];
        assert_eq!(written(Version::V2, &values), rows(&v2));
    }

    #[test]
    fn unlimited_is_written_and_absent_values_are_not() {
        let values = CgroupValues { cpu_quota: Some(-1), ..CgroupValues::default() };
        assert_eq!(written(Version::V1, &values), rows(&[("cpu.cfs_quota_us", "-1")]));
        assert_eq!(written(Version::V2, &values), rows(&[("cpu.max", "max 100000")]));
        for version in [Version::V1, Version::V2] {
            assert_eq!(written(version, &CgroupValues::default()), []);
        }
    }
}
