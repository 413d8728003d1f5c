//! Facts about a pod that the runtime does not show.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::admission::PendingResize;
use model::cgroup::CgroupValues;
use model::pod_failure::PodFailure;
use model::probe::PodProbes;

use crate::decide::input::{Resizing, Waiting};

/// Facts about a pod in addition to the observed runtime status. The default is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatusOverrides {
    /// Why containers did not start at the last attempt, by container name.
    pub start_failures: BTreeMap<String, Waiting>,
    /// Whether a sandbox was created that has not been observed yet.
    pub has_new_sandbox: bool,
    /// Why the whole pod has failed.
    pub failure: Option<PodFailure>,
    /// Whether the pod was stopped and will not run again, regardless of its restart policy.
    pub stopped_for_good: bool,
    /// State of the pod's resize.
    pub resize: ResizeState,
    /// Whether the runtime supports recursive read-only mounts for the pod.
    pub recursive_read_only: bool,
    /// Results of the pod's probes.
    pub probes: PodProbes,
}

/// State of a pod's resize, for its conditions and reported resources.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResizeState {
    /// Why the requested resources are not allocated.
    pub pending: Option<Arc<PendingResize>>,
    /// Whether the allocated resources are not applied yet.
    pub in_progress: bool,
    /// The last error while applying them.
    pub error: Option<Arc<str>>,
    /// Values of the pod's cgroup, if known.
    pub cgroup: Option<CgroupValues>,
    /// Memory requests last applied to containers in bytes, by container name, where they may differ
    /// from the specification.
    pub memory_requests: Option<BTreeMap<String, i64>>,
}

impl ResizeState {
    /// The same state, as [`StatusInput`](crate::decide::StatusInput) takes it.
    pub fn resizing(&self) -> Resizing<'_> {
        Resizing {
            pending: self.pending.as_deref(),
            in_progress: self.in_progress,
            error: self.error.as_deref(),
            cgroup: self.cgroup.as_ref(),
            memory_requests: self.memory_requests.as_ref(),
        }
    }
}
