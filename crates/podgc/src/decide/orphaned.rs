//! Pods of nodes that do not exist.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::plan::{PodView, Removal, Rule};

/// What goes: all pods, whatever their phase, of nodes that were missing for the whole quarantine
/// and that the API server itself says do not exist; with how long they were missing.
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
