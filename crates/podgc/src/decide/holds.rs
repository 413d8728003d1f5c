//! Whether what was decided about a pod still holds when its turn comes.

use crate::plan::{Pass, PodView};

/// Whether a pod, as it is known now, still goes by a pass that chose it earlier. A node may have come
/// back since the server was asked about it.
pub fn holds(pod: &PodView<'_>, pass: Pass, node_is_there: bool) -> bool {
    let has_node = !pod.node.is_empty();
    !pod.is_spent()
        && match pass {
            Pass::Terminated => pod.phase.is_terminated(),
            Pass::OutOfService => pod.is_terminating() && has_node,
            Pass::Orphaned => has_node && !node_is_there,
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
            is_asked: false,
        }
    }

    // behaviour: PGC-29
    #[test]
    fn what_changed_since_it_was_chosen_stays() {
        use Deletion::{Forced, Graceful, None};
        use PodPhase::{Failed, Running};
        let rows = [
            (pod(Failed, None, "n"), true, [true, false, false, false]),
            (pod(Failed, None, "n"), false, [true, false, true, false]),
            (pod(Running, None, "n"), true, [false; 4]),
            (pod(Running, None, "n"), false, [false, false, true, false]),
            (pod(Running, Graceful, "n"), true, [false, true, false, false]),
            (pod(Running, Graceful, ""), false, [false, false, false, true]),
            (pod(Running, None, ""), false, [false; 4]),
            (pod(Running, Forced, ""), false, [false, false, false, true]),
            // Only its finalizers are waited for.
            (pod(Failed, Forced, ""), false, [false; 4]),
            (PodView { is_asked: true, ..pod(Failed, Graceful, "") }, false, [false; 4]),
        ];
        for (pod, node_is_there, expected) in rows {
            let seen = Pass::ALL.map(|pass| holds(&pod, pass, node_is_there));
            assert_eq!(seen, expected, "{pod:?}, node there: {node_is_there}");
        }
    }
}
