//! Terminating pods that never got a node: no node agent will ever end them.

use crate::plan::{PodView, Removal, Rule};

/// What goes.
pub fn unscheduled<'a>(terminating: impl Iterator<Item = PodView<'a>>) -> Vec<Removal> {
    let going =
        terminating.filter(|pod| pod.is_terminating() && pod.node.is_empty() && !pod.is_spent());
    going.map(|pod| Removal { pod: pod.id, rule: Rule::NeverScheduled }).collect()
}
