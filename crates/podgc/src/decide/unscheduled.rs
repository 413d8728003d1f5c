//! Terminating pods that never got a node: no kubelet will ever end them.

use crate::plan::{PodView, Removal, Rule};

/// Selects these pods.
pub fn unscheduled<'a>(terminating: impl Iterator<Item = PodView<'a>>) -> Vec<Removal> {
    let going =
        terminating.filter(|pod| pod.is_terminating() && pod.node.is_empty() && !pod.is_spent());
    going.map(|pod| Removal { pod: pod.id, rule: Rule::NeverScheduled }).collect()
}
