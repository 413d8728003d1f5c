//! The resources of a container, as the runtime reports them.

use crate::cgroup::cpu;
use crate::wanted::LinuxResources;

/// The resources that the runtime set last for a container. `None` for those it does not report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReportedResources {
    /// CPU request in millicores.
    pub cpu_request: Option<i64>,
    /// CPU limit in millicores.
    pub cpu_limit: Option<i64>,
    /// Memory limit in bytes.
    pub memory_limit: Option<i64>,
}

impl ReportedResources {
    /// Converts cgroup values, if any are set.
    pub fn of(resources: &LinuxResources) -> Option<Self> {
        let LinuxResources { cpu_period, cpu_quota, cpu_shares, memory_limit, .. } = *resources;
        let some = |number: i64| (number > 0).then_some(number);
        let reported = Self {
            cpu_request: some(cpu::milli_of_shares(cpu_shares)),
            cpu_limit: some(cpu::milli_of_quota(cpu_quota, cpu_period)),
            memory_limit: some(memory_limit),
        };
        (reported != Self::default()).then_some(reported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroup_values_convert_to_reported_resources() {
        let none = LinuxResources::default();
        assert_eq!(ReportedResources::of(&none), None);
        let resources = LinuxResources {
            cpu_period: 100_000,
            cpu_quota: 25_000,
            cpu_shares: 102,
            memory_limit: 64 << 20,
            ..none.clone()
        };
        let expected = ReportedResources {
            cpu_request: Some(100),
            cpu_limit: Some(250),
            memory_limit: Some(64 << 20),
        };
        assert_eq!(ReportedResources::of(&resources), Some(expected));
        let unlimited = LinuxResources { cpu_quota: -1, memory_limit: 0, ..resources };
        let expected = ReportedResources { cpu_limit: None, memory_limit: None, ..expected };
        assert_eq!(ReportedResources::of(&unlimited), Some(expected));
    }
}
