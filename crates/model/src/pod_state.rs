//! How far a pod is in its life, as far as what is left of it depends on it.

/// What the pod's worker says of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerState {
    /// The node ended it because it needed what the pod used, and told how it ended.
    pub evicted: bool,
    /// It ended because nobody wants it any more, and it was told how: it was deleted, is known to the
    /// runtime alone, or is not among the pods that are wanted.
    pub deleted: bool,
    /// Nothing of it runs any more, and nothing will be started.
    pub terminated: bool,
}

/// What is known of a pod whose remains somebody looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodState {
    /// It has a worker.
    Known(WorkerState),
    /// A source gives it, and it has no worker yet or was refused.
    Given,
    /// All sources were heard and none gives it, and it has no worker.
    Gone,
    /// Nobody knows of it, but not all sources were heard: one of them may give it.
    NotHeard,
    /// There is nobody to ask.
    Unasked,
}

impl PodState {
    /// Whether all that is left of it may go, and by which rule; upstream's
    /// `ShouldPodContentBeRemoved`.
    pub fn content_removable(self) -> Option<&'static str> {
        match self {
            Self::Known(WorkerState { evicted: true, .. }) => Some("pod-evicted"),
            Self::Known(WorkerState { deleted: true, terminated: true, .. }) => Some("pod-deleted"),
            Self::Gone => Some("pod-is-gone"),
            Self::Known(_) | Self::Given | Self::NotHeard | Self::Unasked => None,
        }
    }

    /// Whether what the runtime has of it may go when the node needs room, and by which rule;
    /// upstream's `ShouldPodRuntimeBeRemoved`.
    pub fn runtime_removable(self) -> Option<&'static str> {
        match self {
            Self::Known(WorkerState { terminated: true, .. }) => Some("pod-terminated"),
            Self::Gone => Some("pod-is-gone"),
            Self::Known(_) | Self::Given | Self::NotHeard | Self::Unasked => None,
        }
    }

    /// Whether its logs may go, and by which rule. Unlike upstream's, an evicted pod keeps them until
    /// nothing of it runs: its containers still write.
    pub fn logs_removable(self) -> Option<&'static str> {
        match self {
            Self::Known(WorkerState { terminated: false, .. }) => None,
            other => other.content_removable(),
        }
    }

    /// The state in a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Known(WorkerState { evicted: true, .. }) => "evicted",
            Self::Known(WorkerState { deleted: true, terminated: true, .. }) => "deleted",
            Self::Known(WorkerState { terminated: true, .. }) => "terminated",
            Self::Known(_) => "active",
            Self::Given => "given",
            Self::Gone => "gone",
            Self::NotHeard => "not-heard",
            Self::Unasked => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: GC-1, GC-2, GC-3, GC-4, GC-5
    #[test]
    fn each_state_of_a_pod_says_what_of_it_may_go() {
        let known = |evicted, deleted, terminated| {
            PodState::Known(WorkerState { evicted, deleted, terminated })
        };
        // content, runtime, logs
        let rows = [
            (known(false, false, false), [None, None, None]),
            (known(true, false, false), [Some("pod-evicted"), None, None]),
            (
                known(true, false, true),
                [Some("pod-evicted"), Some("pod-terminated"), Some("pod-evicted")],
            ),
            (known(false, true, false), [None, None, None]),
            (
                known(false, true, true),
                [Some("pod-deleted"), Some("pod-terminated"), Some("pod-deleted")],
            ),
            (known(false, false, true), [None, Some("pod-terminated"), None]),
            (PodState::Given, [None, None, None]),
            (PodState::Gone, [Some("pod-is-gone"); 3]),
            (PodState::NotHeard, [None, None, None]),
            (PodState::Unasked, [None, None, None]),
        ];
        for (state, expected) in rows {
            let answers =
                [state.content_removable(), state.runtime_removable(), state.logs_removable()];
            assert_eq!(answers, expected, "{state:?}");
        }
    }
}
