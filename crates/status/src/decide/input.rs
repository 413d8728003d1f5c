//! What a status is made of.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use model::admission::PendingResize;
use model::cgroup::CgroupValues;
use model::observed;
use model::pod_failure::PodFailure;
use model::probe::PodProbes;

/// All that a pod's status is made of.
#[derive(Debug, Clone, Copy)]
pub struct StatusInput<'a> {
    /// The pod. Its own status is what the API shows; pods of manifests have none.
    pub pod: &'a Pod,
    /// What the runtime shows of it.
    pub observed: &'a observed::PodStatus,
    /// The status computed before. Without one, what the API shows takes its place.
    pub previous: Option<&'a PodStatus>,
    /// Why containers did not start at the last attempt, by container name.
    pub start_failures: &'a BTreeMap<String, Waiting>,
    /// Whether a sandbox was just made for it, which is not among what the runtime showed.
    pub has_new_sandbox: bool,
    /// Why the whole pod has failed, whatever its containers do.
    pub failure: Option<&'a PodFailure>,
    /// Whether everything of the pod was stopped, and nothing of it will run again whatever its
    /// restart policy says.
    pub stopped_for_good: bool,
    /// How far it has the resources that it asks for.
    pub resizing: Resizing<'a>,
    /// Whether its runtime can keep what is mounted below a read-only mount from being written too.
    pub recursive_read_only: bool,
    /// Results of the pod's probes.
    pub probes: &'a PodProbes,
    /// What is known of the node.
    pub node: &'a NodeFacts,
    /// The time now.
    pub now: Timestamp,
}

impl<'a> StatusInput<'a> {
    /// The status to go on from.
    pub(crate) fn base(&self) -> Option<&'a PodStatus> {
        self.previous.or(self.pod.status.as_ref())
    }
}

/// How far a pod has the resources that it asks for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Resizing<'a> {
    /// Why it was not given them, if it was not.
    pub pending: Option<&'a PendingResize>,
    /// Whether it has not yet what it was given.
    pub in_progress: bool,
    /// What is in the way of that.
    pub error: Option<&'a str>,
    /// What the pod's cgroup has, if that is known.
    pub cgroup: Option<&'a CgroupValues>,
    /// Bytes of memory that its containers were given when they were last changed, by their names, as far
    /// as that is known: the kernel does not tell.
    pub memory_requests: Option<&'a BTreeMap<String, i64>>,
}

/// Why a container is not running yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// In one word: `CrashLoopBackOff`, `ErrImagePull`, …
    pub reason: &'static str,
    /// In a sentence.
    pub message: String,
}

/// What a pod's status tells of its node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeFacts {
    /// Addresses of the node, the preferred family first, at most one of each; empty while unknown.
    pub host_ips: Vec<IpAddr>,
    /// Whether addresses of the sixth version of IP come first in what is told of pods: `--node-ip` begins with one.
    pub prefers_v6: bool,
    /// Name of the container runtime, as in `containerd://<id>`.
    pub runtime_name: String,
    /// Whether containers may say which signal ends them, and it is told which does.
    pub stop_signals: bool,
}
