//! The state of a pod that decides about the removal of its containers, logs and directories.

/// The state of the pod's worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerState {
    /// The node evicted it to reclaim its resources, and has reported its status.
    pub evicted: bool,
    /// It was terminated because it is no longer desired, and its status was reported: it was deleted, is known
    /// only to the runtime, or is in no source any more.
    pub deleted: bool,
    /// None of its containers runs or will be started.
    pub terminated: bool,
}

/// The state of a pod, for garbage collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodState {
    /// It has a worker.
    Known(WorkerState),
    /// It is in a source, and has no worker yet or was rejected.
    Desired,
    /// All sources are ready and none has it, and it has no worker.
    Gone,
    /// It is unknown, but not all sources are ready: one of them may have it.
    SourcesNotReady,
    /// Pod states are not available.
    Unknown,
}

impl PodState {
    /// The rule by which all its content may be removed, if it may; upstream's
    /// `ShouldPodContentBeRemoved`.
    pub fn content_removable(self) -> Option<&'static str> {
        match self {
            Self::Known(WorkerState { evicted: true, .. }) => Some("pod-evicted"),
            Self::Known(WorkerState { deleted: true, terminated: true, .. }) => Some("pod-deleted"),
            Self::Gone => Some("pod-is-gone"),
            Self::Known(_) | Self::Desired | Self::SourcesNotReady | Self::Unknown => None,
        }
    }

    /// The rule by which its containers and sandboxes may be removed when the node needs disk space, if they may;
    /// upstream's `ShouldPodRuntimeBeRemoved`.
    pub fn runtime_removable(self) -> Option<&'static str> {
        match self {
            Self::Known(WorkerState { terminated: true, .. }) => Some("pod-terminated"),
            Self::Gone => Some("pod-is-gone"),
            Self::Known(_) | Self::Desired | Self::SourcesNotReady | Self::Unknown => None,
        }
    }

    /// The rule by which its logs may be removed, if they may. Unlike upstream, an evicted pod keeps them until
    /// nothing of it runs: its containers still write.
    pub fn logs_removable(self) -> Option<&'static str> {
        match self {
            Self::Known(WorkerState { terminated: false, .. }) => None,
            other => other.content_removable(),
        }
    }

    /// The state as the journal has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Known(WorkerState { evicted: true, .. }) => "evicted",
            Self::Known(WorkerState { deleted: true, terminated: true, .. }) => "deleted",
            Self::Known(WorkerState { terminated: true, .. }) => "terminated",
            Self::Known(_) => "active",
            Self::Desired => "given",
            Self::Gone => "gone",
            Self::SourcesNotReady => "not-heard",
            Self::Unknown => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: GC-1, GC-2, GC-3, GC-4, GC-5
    #[test]
    fn pod_state_defines_what_may_be_removed() {
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
            (PodState::Desired, [None, None, None]),
            (PodState::Gone, [Some("pod-is-gone"); 3]),
            (PodState::SourcesNotReady, [None, None, None]),
            (PodState::Unknown, [None, None, None]),
        ];
        for (state, expected) in rows {
            let answers =
                [state.content_removable(), state.runtime_removable(), state.logs_removable()];
            assert_eq!(answers, expected, "{state:?}");
        }
    }
}
