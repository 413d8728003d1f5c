//! Pods of nodes that do not exist.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::plan::{PodView, Removal, Rule};

/// Selects all pods, in any phase, of nodes that were missing for the whole quarantine and that do not exist on
/// the API server, with the time they were missing.
pub fn orphaned<'a>(
    pods: impl Iterator<Item = PodView<'a>>,
    gone: &BTreeMap<String, Duration>,
) -> Vec<Removal> {
    let going = pods.filter(|pod| !pod.node.is_empty() && !pod.is_spent());
    let going = going.filter_map(|pod| {
        // Whole seconds are exact enough for reports.
        let missing_for = Duration::from_secs(gone.get(pod.node)?.as_secs());
        Some(Removal { pod: pod.id, rule: Rule::NodeGone { missing_for } })
    });
    going.collect()
}
