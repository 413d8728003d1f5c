//! Whether a decision about a pod still holds when it is carried out.

use model::cluster::NodeRecord;

use super::out_of_service::is_out_of_service;
use crate::plan::{Pass, PodView};

/// Whether the current pod and node still meet the rule of the pass. A node may have returned, or be in
/// service again, since it was read from the server.
pub fn holds(pod: &PodView<'_>, pass: Pass, node: Option<&NodeRecord>) -> bool {
    let has_node = !pod.node.is_empty();
    !pod.is_spent()
        && match pass {
            Pass::Terminated => pod.phase.is_terminated(),
            Pass::OutOfService => pod.is_terminating() && node.is_some_and(is_out_of_service),
            Pass::Orphaned => has_node && node.is_none(),
            Pass::Unscheduled => pod.is_terminating() && !has_node,
        }
}

#[cfg(test)]
mod tests {
    use model::cluster::{Deletion, PodPhase};

    use super::*;
    use crate::plan::PodId;

    fn pod(phase: PodPhase, deletion: Deletion, node: &'static str) -> PodView<'static> {
        PodView {
            id: PodId { slot: 0, stamp: 0 },
            namespace: "default",
            name: "a",
            node,
            phase,
            is_evicted: false,
            created: 0,
            finished: 0,
            order: 0,
            deletion,
            is_deletion_requested: false,
        }
    }

    fn node(is_ready: bool, is_out_of_service: bool) -> NodeRecord {
        NodeRecord { name: "n".to_owned(), is_ready, is_out_of_service }
    }

    // behaviour: PGC-29, PGC-45
    #[test]
    fn pod_changed_after_its_selection_stays() {
        use Deletion::{Forced, Graceful};
        use PodPhase::{Failed, Running};
        let (well, out) = (Some(node(true, false)), Some(node(false, true)));
        let rows = [
            (pod(Failed, Deletion::None, "n"), well.clone(), [true, false, false, false]),
            (pod(Failed, Deletion::None, "n"), None, [true, false, true, false]),
            (pod(Running, Deletion::None, "n"), well.clone(), [false; 4]),
            (pod(Running, Deletion::None, "n"), out.clone(), [false; 4]),
            (pod(Running, Deletion::None, "n"), None, [false, false, true, false]),
            (pod(Running, Graceful, "n"), out, [false, true, false, false]),
            // The node is ready again, or the taint or the node is gone.
            (pod(Running, Graceful, "n"), Some(node(true, true)), [false; 4]),
            (pod(Running, Graceful, "n"), Some(node(false, false)), [false; 4]),
            (pod(Running, Graceful, "n"), well, [false; 4]),
            (pod(Running, Graceful, "n"), None, [false, false, true, false]),
            (pod(Running, Graceful, ""), None, [false, false, false, true]),
            (pod(Running, Deletion::None, ""), None, [false; 4]),
            (pod(Running, Forced, ""), None, [false, false, false, true]),
            // It only waits for its finalizers.
            (pod(Failed, Forced, ""), None, [false; 4]),
            (
                PodView { is_deletion_requested: true, ..pod(Failed, Graceful, "") },
                None,
                [false; 4],
            ),
        ];
        for (pod, node, expected) in rows {
            let seen = Pass::ALL.map(|pass| holds(&pod, pass, node.as_ref()));
            assert_eq!(seen, expected, "{pod:?}, {node:?}");
        }
    }
}
