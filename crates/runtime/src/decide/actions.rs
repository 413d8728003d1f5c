//! What is to be done for a pod, as a value.

use model::ids::{ContainerId, SandboxId};
use model::probe::ProbeFailure;

use super::cgroup_plan::CgroupPlan;
use super::reasons::{KillPod, KillReason, StartReason};
use super::resize::ContainerResize;

/// What must happen, in this order: kill the pod, or single containers and what is reset; remove
/// remains; ensure the cgroup; create a sandbox; change the resources of containers; start containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodActions {
    /// Everything of the pod that still runs ends first.
    pub kill_pod: Option<KillPod>,
    /// Containers that end, each on its own.
    pub kill: Vec<ContainerKill>,
    /// Instances that end without grace and are removed, so that all containers start over.
    pub reset: Vec<ContainerReset>,
    /// Remains that are removed.
    pub remove: Vec<ContainerRemoval>,
    /// Sandboxes that came too late to be used: stopped and removed.
    pub remove_sandboxes: Vec<SandboxId>,
    /// What happens to the pod's cgroup.
    pub cgroup: CgroupPlan,
    /// Containers that get other resources as they run, in this order.
    pub resize: Vec<ContainerResize>,
    /// Where containers are started.
    pub sandbox: SandboxPlan,
    /// Containers that start: ephemeral ones, then init containers, then regular ones, each kind in
    /// the order of the specification.
    pub start: Vec<ContainerStart>,
}

impl PodActions {
    /// Nothing, in a sandbox.
    pub(super) fn none(sandbox: SandboxPlan) -> Self {
        Self {
            kill_pod: None,
            kill: Vec::new(),
            reset: Vec::new(),
            remove: Vec::new(),
            remove_sandboxes: Vec::new(),
            cgroup: CgroupPlan::Keep,
            resize: Vec::new(),
            sandbox,
            start: Vec::new(),
        }
    }

    /// Whether containers end to start anew with other resources.
    pub fn restarts_for_size(&self) -> bool {
        self.kill.iter().any(|kill| kill.why == KillReason::Resized)
    }

    /// The same while the pod cannot be resized: who would start anew for that stays, and nothing
    /// changes its resources.
    pub fn leave_sizes(&mut self) {
        self.resize.clear();
        self.kill.retain(|kill| kill.why != KillReason::Resized);
        self.start.retain(|start| start.why != StartReason::Killed(KillReason::Resized));
    }

    /// Whether the pod is as specified.
    pub fn is_nothing(&self) -> bool {
        self.is_at_most_cgroup() && matches!(self.cgroup, CgroupPlan::Keep | CgroupPlan::Recount)
    }

    /// Whether anything ends or is removed.
    pub fn makes_way(&self) -> bool {
        self.kill_pod.is_some()
            || !self.kill.is_empty()
            || !self.reset.is_empty()
            || !self.remove.is_empty()
            || !self.remove_sandboxes.is_empty()
    }

    /// Whether nothing happens but to the pod's cgroup.
    pub fn is_at_most_cgroup(&self) -> bool {
        !self.makes_way()
            && self.resize.is_empty()
            && self.start.is_empty()
            && !matches!(self.sandbox, SandboxPlan::Create { .. })
    }
}

/// The sandbox that containers are started in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxPlan {
    /// The one that is there.
    Keep(SandboxId),
    /// A new one.
    Create {
        /// Its number among the pod's sandboxes.
        attempt: u32,
        /// Whether one before it died or became useless, which people are told.
        replaces: bool,
    },
    /// None: nothing is started.
    None,
}

impl SandboxPlan {
    /// The sandbox that is kept.
    pub fn kept(&self) -> Option<&SandboxId> {
        match self {
            Self::Keep(id) => Some(id),
            Self::Create { .. } | Self::None => None,
        }
    }
}

/// What a container is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// One of `ephemeralContainers`.
    Ephemeral,
    /// One of `initContainers` that must end.
    Init,
    /// One of `initContainers` that keeps running.
    Sidecar,
    /// One of `containers`.
    Regular,
}

impl Role {
    /// The list of the specification that it is in.
    pub fn field(self) -> &'static str {
        match self {
            Self::Ephemeral => "ephemeralContainers",
            Self::Init | Self::Sidecar => "initContainers",
            Self::Regular => "containers",
        }
    }

    /// Whether it is one of `initContainers`.
    pub fn is_init(self) -> bool {
        matches!(self, Self::Init | Self::Sidecar)
    }
}

/// A container that ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerKill {
    /// Which.
    pub id: ContainerId,
    /// Its name.
    pub name: String,
    /// Why.
    pub why: KillReason,
    /// Whether it is started again.
    pub restarts: bool,
    /// The failure of the probe that kills it.
    pub probe: Option<ProbeFailure>,
}

/// An instance that goes so that all start over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerReset {
    /// Which.
    pub id: ContainerId,
    /// Its name.
    pub name: String,
    /// Whether it must be ended first.
    pub kill: bool,
}

/// Remains that go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerRemoval {
    /// Which.
    pub id: ContainerId,
    /// Its name.
    pub name: String,
    /// The rule that says so.
    pub rule: &'static str,
}

/// A container that starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerStart {
    /// What it is for.
    pub role: Role,
    /// Its place in the list of its kind.
    pub index: usize,
    /// Why.
    pub why: StartReason,
}

/// How a sync ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The pod was as specified.
    Nothing,
    /// What it needed was done.
    Done,
    /// The same, and what its containers may use has changed, of which only a close look tells.
    Resized,
    /// What must come first was done; the rest wants another look, now.
    Again,
}
