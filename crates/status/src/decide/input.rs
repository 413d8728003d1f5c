//! The inputs of a status.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use model::admission::PendingResize;
use model::cgroup::CgroupValues;
use model::observed;
use model::pod_failure::PodFailure;
use model::probe::PodProbes;

/// The inputs of a pod's status.
#[derive(Debug, Clone, Copy)]
pub struct StatusInput<'a> {
    /// The pod. Its own status is that of the API server; pods of manifests have none.
    pub pod: &'a Pod,
    /// The observed state of the runtime.
    pub observed: &'a observed::RuntimePodStatus,
    /// The status computed before. Without one, the status of the API server is used.
    pub previous: Option<&'a PodStatus>,
    /// Why containers did not start at the last attempt, by container name.
    pub start_failures: &'a BTreeMap<String, Waiting>,
    /// Whether a sandbox was just created that is not part of the observed state.
    pub has_new_sandbox: bool,
    /// Why the whole pod has failed, regardless of its containers.
    pub failure: Option<&'a PodFailure>,
    /// Whether everything of the pod was stopped, and nothing will run again regardless of its
    /// restart policy.
    pub stopped_for_good: bool,
    /// The state of its resize.
    pub resizing: Resizing<'a>,
    /// Whether the runtime supports recursive read-only mounts for the pod.
    pub recursive_read_only: bool,
    /// Results of the pod's probes.
    pub probes: &'a PodProbes,
    /// Facts about the node.
    pub node: &'a NodeFacts,
    /// The time now.
    pub now: Timestamp,
}

impl<'a> StatusInput<'a> {
    /// The previous status, or that of the API server.
    pub(crate) fn base(&self) -> Option<&'a PodStatus> {
        self.previous.or(self.pod.status.as_ref())
    }
}

/// The state of a pod's resize.
#[derive(Debug, Clone, Copy, Default)]
pub struct Resizing<'a> {
    /// Why the requested resources are not allocated, if so.
    pub pending: Option<&'a PendingResize>,
    /// Whether the allocated resources are not applied yet.
    pub in_progress: bool,
    /// The last error while applying them.
    pub error: Option<&'a str>,
    /// The values of the pod's cgroup, if they are known.
    pub cgroup: Option<&'a CgroupValues>,
    /// Memory requests last applied to containers in bytes, by name, if known: the kernel does not
    /// report them.
    pub memory_requests: Option<&'a BTreeMap<String, i64>>,
}

/// Why a container is not running yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The reason: `CrashLoopBackOff`, `ErrImagePull`, …
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

/// Facts about the node for the statuses of its pods.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeFacts {
    /// Addresses of the node, the preferred family first, at most one of each; empty while unknown.
    pub host_ips: Vec<IpAddr>,
    /// Whether IPv6 addresses come first in the status of pods: `--node-ip` begins with one.
    pub prefers_v6: bool,
    /// Name of the container runtime, as in `containerd://<id>`.
    pub runtime_name: String,
    /// Whether containers may specify a stop signal, which their statuses then show.
    pub stop_signals: bool,
}
