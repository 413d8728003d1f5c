//! The memory usage at which the kernel is to notify, on cgroup v1.

use model::stats::NodeStats;

use super::observation::{memory_stats, number};
use super::threshold::Threshold;

/// The usage of the signal's cgroup at which a threshold of memory is met. Inactive pages of files count as usage for
/// the kernel, and as available for the threshold.
pub fn notification_level(threshold: &Threshold, node: &NodeStats) -> Option<u64> {
    let stats = memory_stats(threshold.signal, node)?;
    let (available, working_set) = (stats.available_bytes?, stats.working_set_bytes?);
    let inactive = stats.usage_bytes?.saturating_sub(working_set);
    let capacity = available.saturating_add(working_set);
    let amount = threshold.level.amount(number(capacity)).value();
    let amount = u64::try_from(amount).unwrap_or(0);
    Some(capacity.saturating_sub(amount).saturating_add(inactive))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::stats::{ContainerStats, MemoryStats};

    use super::*;
    use crate::decide::signal::Signal;
    use crate::decide::threshold::Level;

    // behaviour: EVI-48
    #[test]
    fn level_is_capacity_less_threshold_with_inactive_pages() {
        let memory = |available, used, inactive| MemoryStats {
            available_bytes: Some(available),
            working_set_bytes: Some(used),
            usage_bytes: Some(used + inactive),
            ..MemoryStats::default()
        };
        let pods = ContainerStats {
            name: "pods".to_owned(),
            memory: Some(memory(50, 150, 7)),
            ..ContainerStats::default()
        };
        let node = NodeStats {
            memory: Some(memory(600, 400, 30)),
            system_containers: vec![pods],
            ..NodeStats::default()
        };
        let rows = [
            (Signal::MemoryAvailable, Some(1000 - 100 + 30)),
            (Signal::AllocatableMemoryAvailable, Some(200 - 20 + 7)),
            (Signal::NodeFsAvailable, None),
        ];
        for (signal, expected) in rows {
            let (level, grace) = (Level::Share(0.1), Duration::ZERO);
            let threshold = Threshold { signal, level, grace, minimum_reclaim: None };
            assert_eq!(notification_level(&threshold, &node), expected, "{signal}");
            assert_eq!(notification_level(&threshold, &NodeStats::default()), None);
        }
    }
}
