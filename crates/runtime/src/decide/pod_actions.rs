//! What must happen so that the runtime matches a pod.

use std::fmt;

use k8s_openapi::api::core::v1::{Container, Pod};
use model::ids::{ContainerId, SandboxId};
use model::labels;
use model::observed::{ContainerState, ContainerStatus, PodStatus};
use podspec::restart::{RestartPolicy, pod_restart_policy, restart_policy, should_restart};
use podspec::{SandboxFit, sandbox_fit, view};

/// What must happen, in this order: kill the pod or single containers, make a sandbox, start
/// containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodActions {
    /// Everything of the pod that still runs ends first.
    pub kill_pod: Option<KillPod>,
    /// Where containers are started.
    pub sandbox: SandboxPlan,
    /// Containers that end, each on its own.
    pub kill: Vec<ContainerKill>,
    /// Containers that start, in the order of the specification.
    pub start: Vec<ContainerStart>,
}

impl PodActions {
    /// Whether the pod is as specified.
    pub fn is_nothing(&self) -> bool {
        self.kill_pod.is_none()
            && self.kill.is_empty()
            && self.start.is_empty()
            && !matches!(self.sandbox, SandboxPlan::Create { .. })
    }
}

/// Why everything of a pod ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillPod {
    /// The sandbox cannot be used any more.
    SandboxChanged,
    /// Nothing runs and nothing will.
    NothingLeft,
}

impl fmt::Display for KillPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SandboxChanged => "its sandbox cannot be used any more",
            Self::NothingLeft => "nothing of it runs and nothing will",
        })
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
    /// None: the pod ends.
    None,
}

/// A container that ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerKill {
    /// Which.
    pub id: ContainerId,
    /// Its name.
    pub name: String,
    /// Why, as people are told.
    pub why: StartReason,
}

/// A container that starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerStart {
    /// Its place in the specification.
    pub index: usize,
    /// Why.
    pub why: StartReason,
}

/// Why a container is started, or started anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartReason {
    /// It never ran in this pod.
    New,
    /// It ended and its policy asks for another run.
    Ended {
        /// How it ended.
        exit_code: i32,
    },
    /// It was made and not started.
    NeverStarted,
    /// The runtime does not know how it is.
    UnknownState,
    /// Its definition changed.
    Changed,
    /// Its sandbox is new.
    NewSandbox,
    /// A newer instance has taken its place.
    Superseded,
}

impl fmt::Display for StartReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New => f.write_str("it has not run yet"),
            Self::Ended { exit_code } => write!(f, "it ended with exit code {exit_code}"),
            Self::NeverStarted => f.write_str("it was created and not started"),
            Self::UnknownState => f.write_str("the runtime does not know its state"),
            Self::Changed => f.write_str("its definition changed"),
            Self::NewSandbox => f.write_str("its sandbox is new"),
            Self::Superseded => f.write_str("a newer instance has taken its place"),
        }
    }
}

/// Compares a pod with what was observed of it; upstream's `computePodActions`.
pub fn pod_actions(pod: &Pod, status: &PodStatus) -> PodActions {
    match sandbox_plan(pod, status) {
        SandboxPlan::Keep(id) => in_sandbox(pod, status, id),
        plan => with_new_sandbox(pod, status, plan),
    }
}

/// The sandbox that is there, or one in its place.
fn sandbox_plan(pod: &Pod, status: &PodStatus) -> SandboxPlan {
    match sandbox_fit(pod, status) {
        SandboxFit::Usable(newest) => SandboxPlan::Keep(newest.id.clone()),
        SandboxFit::Missing => SandboxPlan::Create { attempt: 0, replaces: false },
        SandboxFit::Broken(newest) => {
            SandboxPlan::Create { attempt: newest.attempt + 1, replaces: true }
        }
        SandboxFit::OtherNetwork(newest) => {
            SandboxPlan::Create { attempt: newest.attempt + 1, replaces: false }
        }
    }
}

fn with_new_sandbox(pod: &Pod, status: &PodStatus, plan: SandboxPlan) -> PodActions {
    // A dead sandbox is stopped too: it may still hold its network.
    let kill_pod =
        (!status.sandboxes.is_empty() || status.may_be_alive()).then_some(KillPod::SandboxChanged);
    let only_kill = PodActions {
        kill_pod: status.may_be_alive().then_some(KillPod::NothingLeft),
        sandbox: SandboxPlan::None,
        kill: Vec::new(),
        start: Vec::new(),
    };
    let again = matches!(plan, SandboxPlan::Create { attempt, .. } if attempt > 0);
    let ran_before = !status.containers.is_empty();
    if pod_restart_policy(pod) == RestartPolicy::Never && again && ran_before {
        return only_kill;
    }
    let start: Vec<ContainerStart> = view::containers(pod)
        .iter()
        .enumerate()
        .filter(|(_, container)| !has_succeeded_for_good(pod, container, status))
        .map(|(index, container)| ContainerStart { index, why: why_anew(container, status) })
        .collect();
    if start.is_empty() && ran_before {
        return only_kill;
    }
    PodActions { kill_pod, sandbox: plan, kill: Vec::new(), start }
}

fn why_anew(container: &Container, status: &PodStatus) -> StartReason {
    match status.latest(&container.name) {
        Some(_) => StartReason::NewSandbox,
        None => StartReason::New,
    }
}

fn has_succeeded_for_good(pod: &Pod, container: &Container, status: &PodStatus) -> bool {
    let succeeded = status
        .latest(&container.name)
        .is_some_and(|latest| latest.state == ContainerState::Exited && latest.exit_code == 0);
    succeeded && restart_policy(pod, container) == RestartPolicy::OnFailure
}

fn in_sandbox(pod: &Pod, status: &PodStatus, sandbox: SandboxId) -> PodActions {
    let mut kill = Vec::new();
    let mut start = Vec::new();
    let mut kept = 0;
    for (index, container) in view::containers(pod).iter().enumerate() {
        let latest = status.latest(&container.name);
        let running = latest.filter(|latest| latest.state == ContainerState::Running);
        let why = match running {
            Some(running) if definition_changed(container, running) => Some(StartReason::Changed),
            Some(_) => {
                kept += 1;
                None
            }
            None => should_restart(pod, container, latest).then(|| why_not_running(latest)),
        };
        // Two of one name must never live, so whatever may live and is not kept goes: an instance that
        // is replaced or in an unknown state, and an older one that should have been gone long ago.
        let keep = running.filter(|_| why.is_none()).map(|running| &running.id);
        let instances = status.maybe_running().filter(|instance| *instance.name == *container.name);
        let surplus = instances.filter(|instance| Some(&instance.id) != keep);
        kill.extend(surplus.map(|instance| ContainerKill {
            id: instance.id.clone(),
            name: container.name.clone(),
            why: why.unwrap_or(StartReason::Superseded),
        }));
        start.extend(why.map(|why| ContainerStart { index, why }));
    }
    let kill_pod = (kept == 0 && start.is_empty()).then_some(KillPod::NothingLeft);
    let sandbox = if kill_pod.is_some() { SandboxPlan::None } else { SandboxPlan::Keep(sandbox) };
    PodActions { kill_pod, sandbox, kill, start }
}

fn why_not_running(latest: Option<&ContainerStatus>) -> StartReason {
    match latest {
        None => StartReason::New,
        Some(latest) => match latest.state {
            ContainerState::Created => StartReason::NeverStarted,
            ContainerState::Exited => StartReason::Ended { exit_code: latest.exit_code },
            ContainerState::Unknown | ContainerState::Running => StartReason::UnknownState,
        },
    }
}

/// A container that was made by somebody else, without a hash, is taken as it is.
fn definition_changed(container: &Container, running: &ContainerStatus) -> bool {
    let image = container.image.as_deref().unwrap_or_default();
    let hash = podspec::definition_hash_hex(&container.name, image);
    running.annotations.get(labels::CONTAINER_HASH).is_some_and(|made_with| *made_with != hash)
}

#[cfg(test)]
#[path = "pod_actions_tests.rs"]
mod tests;
