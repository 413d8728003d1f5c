//! Terminating pods on nodes that are out of service.

use std::collections::BTreeSet;

use model::cluster::NodeRecord;

use crate::plan::{PodView, Removal, Rule};

/// Whether terminating pods of a node will never end: the node has the out-of-service taint and is not ready.
pub fn is_out_of_service(node: &NodeRecord) -> bool {
    !node.is_ready && node.is_out_of_service
}

/// The nodes to read: the nodes of pods that could be deleted.
pub fn nodes_to_ask<'a>(
    terminating: impl Iterator<Item = PodView<'a>>,
    node: impl Fn(&str) -> Option<NodeRecord>,
) -> BTreeSet<String> {
    let names = terminating.filter(|pod| !pod.is_spent() && !pod.node.is_empty());
    let names: BTreeSet<&str> = names.map(|pod| pod.node).collect();
    let out = names.into_iter().filter(|name| node(name).as_ref().is_some_and(is_out_of_service));
    out.map(str::to_owned).collect()
}

/// Selects all terminating pods on nodes that the API server reports as out of service.
pub fn out_of_service<'a>(
    terminating: impl Iterator<Item = PodView<'a>>,
    proven: &BTreeSet<String>,
) -> Vec<Removal> {
    let going = terminating.filter(|pod| {
        pod.is_terminating() && !pod.is_spent() && !pod.node.is_empty() && proven.contains(pod.node)
    });
    going.map(|pod| Removal { pod: pod.id, rule: Rule::NodeOutOfService }).collect()
}
