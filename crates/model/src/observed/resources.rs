//! How much a container may use, as its runtime says.

use crate::cgroup::cpu;
use crate::wanted::LinuxResources;

/// What the runtime has last told the kernel of a container. What it does not say is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReportedResources {
    /// Thousandths of a processor that it gets when they are short.
    pub cpu_request: Option<i64>,
    /// Thousandths of a processor that it may use.
    pub cpu_limit: Option<i64>,
    /// Bytes of memory that it may use.
    pub memory_limit: Option<i64>,
}

impl ReportedResources {
    /// What the kernel's numbers say, if they say anything.
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
    fn what_the_kernel_was_told_is_told_again_in_the_words_of_pods() {
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
