//! The actions for a pod, as a value.

use model::ids::{ContainerId, SandboxId};
use model::probe::ProbeFailure;

use super::cgroup_plan::CgroupPlan;
use super::reasons::{KillPod, KillReason, StartReason};
use super::resize::ContainerResize;

/// The actions of a sync, in this order: kill the pod, or single containers and those that a restart of all resets;
/// remove old instances; ensure the cgroup; create a sandbox; resize containers; start containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodActions {
    /// Kill everything of the pod first.
    pub kill_pod: Option<KillPod>,
    /// Containers to kill, each on its own.
    pub kill: Vec<ContainerKill>,
    /// Instances to kill without grace and remove, so that all containers restart.
    pub reset: Vec<ContainerReset>,
    /// Old instances to remove.
    pub remove: Vec<ContainerRemoval>,
    /// Sandboxes that were created too late: to stop and remove.
    pub remove_sandboxes: Vec<SandboxId>,
    /// The action for the pod's cgroup.
    pub cgroup: CgroupPlan,
    /// Containers to resize in place, in this order.
    pub resize: Vec<ContainerResize>,
    /// The sandbox for the containers that start.
    pub sandbox: SandboxPlan,
    /// Containers to start: ephemeral ones, then init containers, then regular ones, each kind in
    /// the order of the spec.
    pub start: Vec<ContainerStart>,
}

impl PodActions {
    /// No actions, in a sandbox.
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

    /// Whether containers restart for a resize.
    pub fn restarts_for_size(&self) -> bool {
        self.kill.iter().any(|kill| kill.why == KillReason::Resized)
    }

    /// Drops all resizes, because the pod cannot be resized: containers that would restart for one are kept, and none
    /// is resized.
    pub fn drop_resizes(&mut self) {
        self.resize.clear();
        self.kill.retain(|kill| kill.why != KillReason::Resized);
        self.start.retain(|start| start.why != StartReason::Killed(KillReason::Resized));
    }

    /// Whether the pod is converged.
    pub fn is_nothing(&self) -> bool {
        self.is_at_most_cgroup() && matches!(self.cgroup, CgroupPlan::Keep | CgroupPlan::Recount)
    }

    /// Whether anything is killed or removed.
    pub fn kills_or_removes(&self) -> bool {
        self.kill_pod.is_some()
            || !self.kill.is_empty()
            || !self.reset.is_empty()
            || !self.remove.is_empty()
            || !self.remove_sandboxes.is_empty()
    }

    /// Whether there is at most an action for the pod's cgroup.
    pub fn is_at_most_cgroup(&self) -> bool {
        !self.kills_or_removes()
            && self.resize.is_empty()
            && self.start.is_empty()
            && !matches!(self.sandbox, SandboxPlan::Create { .. })
    }
}

/// The sandbox for containers that start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxPlan {
    /// The existing one.
    Keep(SandboxId),
    /// A new one.
    Create {
        /// Its attempt number.
        attempt: u32,
        /// Whether an earlier one died or became unusable, which has an event.
        replaces: bool,
    },
    /// None: nothing starts.
    None,
}

impl SandboxPlan {
    /// The kept sandbox.
    pub fn kept(&self) -> Option<&SandboxId> {
        match self {
            Self::Keep(id) => Some(id),
            Self::Create { .. } | Self::None => None,
        }
    }
}

/// The kind of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// One of `ephemeralContainers`.
    Ephemeral,
    /// One of `initContainers` that must complete.
    Init,
    /// A sidecar: one of `initContainers` with restart policy `Always`.
    Sidecar,
    /// One of `containers`.
    Regular,
}

impl Role {
    /// The list of the spec that it is in.
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

/// A container to kill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerKill {
    /// Its ID.
    pub id: ContainerId,
    /// Its name.
    pub name: String,
    /// The reason.
    pub why: KillReason,
    /// Whether it restarts.
    pub restarts: bool,
    /// The probe failure that is the reason.
    pub probe: Option<ProbeFailure>,
}

/// An instance that is removed by a restart of all containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerReset {
    /// Its ID.
    pub id: ContainerId,
    /// Its name.
    pub name: String,
    /// Whether it must be killed first.
    pub kill: bool,
}

/// An old instance to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerRemoval {
    /// Its ID.
    pub id: ContainerId,
    /// Its name.
    pub name: String,
    /// The rule for the removal.
    pub rule: &'static str,
}

/// A container to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerStart {
    /// Its kind.
    pub role: Role,
    /// Its index in the list of its kind.
    pub index: usize,
    /// The reason.
    pub why: StartReason,
}

/// The result of a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The pod was converged.
    Nothing,
    /// All actions were done.
    Done,
    /// All actions were done, and containers were resized, which only their statuses show.
    Resized,
    /// The first actions were done; the rest needs another sync with a new status, now.
    Again,
}
