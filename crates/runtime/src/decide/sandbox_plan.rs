//! Whether a pod's sandbox is usable, and what starts in a new one.

use k8s_openapi::api::core::v1::{Container, Pod};
use model::ids::SandboxId;
use model::observed::{ContainerState, RuntimePodStatus, SandboxStatus};
use podspec::restart::{RestartPolicy, pod_restart_policy, restart_policy, restarts_after};
use podspec::{SandboxFit, live_beside_newest, sandbox_fit, view};

use super::actions::{ContainerStart, PodActions, Role, SandboxPlan};
use super::old_instances;
use super::reasons::{KillPod, StartReason};

/// The plan for a pod's sandboxes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sandbox {
    /// There is a usable one.
    Usable {
        id: SandboxId,
        /// Ready sandboxes without containers, which came too late.
        spares: Vec<SandboxId>,
    },
    /// A new one is needed.
    Needed { attempt: u32, replaces: bool },
}

/// Whether the newest sandbox is usable; then other ready ones came too late.
pub(super) fn sandbox_plan(pod: &Pod, status: &RuntimePodStatus) -> Sandbox {
    let after = |newest: &SandboxStatus, replaces| Sandbox::Needed {
        attempt: newest.attempt + 1,
        replaces,
    };
    match sandbox_fit(pod, status) {
        SandboxFit::Usable(newest) => {
            let spares = live_beside_newest(status).map(|sandbox| sandbox.id.clone()).collect();
            Sandbox::Usable { id: newest.id.clone(), spares }
        }
        SandboxFit::Missing => Sandbox::Needed { attempt: 0, replaces: false },
        SandboxFit::Broken(newest) => after(newest, true),
        SandboxFit::OtherNetwork(newest) => after(newest, false),
    }
}

/// The actions for a pod that needs a new sandbox.
pub(super) fn with_new_sandbox(
    pod: &Pod,
    status: &RuntimePodStatus,
    plan: SandboxPlan,
) -> PodActions {
    let only_kill = || PodActions {
        kill_pod: status.may_be_alive().then_some(KillPod::NothingLeft),
        ..PodActions::none(SandboxPlan::None)
    };
    let again = matches!(plan, SandboxPlan::Create { attempt, .. } if attempt > 0);
    if pod_restart_policy(pod) == RestartPolicy::Never && again && !status.containers.is_empty() {
        return only_kill();
    }
    let regular = starts(pod, status);
    if regular.is_empty() && any_regular_was_made(pod, status) {
        return only_kill();
    }
    let start = match view::init_containers(pod).first() {
        Some(first) => {
            let role = if view::is_sidecar(first) { Role::Sidecar } else { Role::Init };
            vec![ContainerStart { role, index: 0, why: why_anew(first, status) }]
        }
        None => regular,
    };
    // A dead sandbox is stopped too: it may still hold its network.
    let anything = !status.sandboxes.is_empty() || status.may_be_alive();
    PodActions {
        kill_pod: anything.then_some(KillPod::SandboxChanged),
        remove: old_instances::of_init_containers(pod, status),
        start,
        ..PodActions::none(plan)
    }
}

/// The regular containers that start in a new sandbox: all that have not succeeded permanently.
fn starts(pod: &Pod, status: &RuntimePodStatus) -> Vec<ContainerStart> {
    let containers = view::containers(pod).iter().enumerate();
    let left = containers.filter(|(_, container)| !has_succeeded_for_good(pod, container, status));
    let start = |(index, container)| ContainerStart {
        role: Role::Regular,
        index,
        why: why_anew(container, status),
    };
    left.map(start).collect()
}

fn why_anew(container: &Container, status: &RuntimePodStatus) -> StartReason {
    match status.latest(&container.name) {
        Some(_) => StartReason::NewSandbox,
        None => StartReason::New,
    }
}

fn has_succeeded_for_good(pod: &Pod, container: &Container, status: &RuntimePodStatus) -> bool {
    let succeeded = status
        .latest(&container.name)
        .is_some_and(|latest| latest.state == ContainerState::Exited && latest.exit_code == 0);
    // A rule may restart it nevertheless: then the pod has not finished, and would wait forever.
    let for_good = restart_policy(pod, container) == RestartPolicy::OnFailure
        && !restarts_after(pod, container, 0);
    succeeded && for_good
}

/// Whether a regular container was created, which shows that init containers had completed.
fn any_regular_was_made(pod: &Pod, status: &RuntimePodStatus) -> bool {
    view::containers(pod).iter().any(|container| {
        let latest = status.latest(&container.name);
        latest.is_some_and(|latest| latest.state != ContainerState::Unknown)
    })
}
