//! Init containers and sidecars in a usable sandbox, in order.

use k8s_openapi::api::core::v1::{Container, Pod};
use model::ids::SandboxId;
use model::observed::{ContainerState, ContainerStatus, RuntimePodStatus};
use podspec::restart::{
    RestartPolicy, init_failure, may_restart_all, restart_policy, restarts_after,
};
use podspec::view;

use super::actions::{ContainerKill, ContainerStart, Role};
use super::pod_actions::SyncContext;
use super::reasons::StartReason;
use super::regular_containers::kill_of_unknown;
use super::sidecars;

/// The actions for init containers.
#[derive(Debug, Default)]
pub(super) struct InitActions {
    /// Whether regular containers may run.
    pub(super) initialized: bool,
    /// Whether one failed permanently, and with it the pod.
    pub(super) failed: bool,
    pub(super) kill: Vec<ContainerKill>,
    /// In the order of the spec.
    pub(super) start: Vec<ContainerStart>,
}

/// The state of one init container by its latest instance.
#[derive(Debug, Default)]
pub(super) struct Finding {
    /// Whether later containers may run.
    pub(super) done: bool,
    /// Whether it failed permanently.
    pub(super) failed: bool,
    pub(super) kill: Option<ContainerKill>,
    pub(super) start: Option<StartReason>,
}

impl Finding {
    /// It needs no action but must be waited for.
    pub(super) const WAIT: Self = Self { done: false, failed: false, kill: None, start: None };

    pub(super) fn start(why: StartReason) -> Self {
        Self { start: Some(why), ..Self::WAIT }
    }
}

/// Upstream's `computeInitContainerActions`: from the last init container to the first, because
/// instances of completed ones may be removed from the runtime.
pub(super) fn init_actions(context: &SyncContext<'_>, sandbox: &SandboxId) -> InitActions {
    let SyncContext { pod, status, .. } = *context;
    let inits = view::init_containers(pod);
    let started = any_regular_started(pod, status, sandbox);
    let mut actions =
        InitActions { initialized: started || inits.is_empty(), ..InitActions::default() };
    // Whether later containers show that the current one has completed.
    let mut passed = started;
    let role = |index: usize| {
        if view::is_sidecar(&inits[index]) { Role::Sidecar } else { Role::Init }
    };
    let start = |index, why| ContainerStart { role: role(index), index, why };
    for (index, container) in inits.iter().enumerate().rev() {
        let is_sidecar = view::is_sidecar(container);
        let latest = status.latest(&container.name).filter(|one| counts_in(pod, one, sandbox));
        let Some(latest) = latest else {
            if passed && is_sidecar {
                actions.start.push(start(index, StartReason::New));
            }
            continue;
        };
        if passed && !is_sidecar {
            continue;
        }
        let found = if is_sidecar {
            sidecars::finding(context, container, latest)
        } else {
            finding(pod, container, latest)
        };
        if found.failed {
            return InitActions { failed: true, ..InitActions::default() };
        }
        if found.done && index + 1 == inits.len() {
            actions.initialized = true;
        } else if found.done && !passed {
            actions.start.push(start(index + 1, StartReason::New));
        }
        actions.kill.extend(found.kill);
        actions.start.extend(found.start.map(|why| start(index, why)));
        passed = true;
    }
    if !passed && !inits.is_empty() {
        actions.start.push(start(0, StartReason::New));
    }
    actions.start.reverse();
    actions
}

/// Whether an instance counts for this sandbox. An instance that exited in an earlier sandbox does not: it should
/// have been removed, but a removal may fail. If a restart of all containers is possible, an instance that never
/// started does not count either: a call from before the restart may have created it.
fn counts_in(pod: &Pod, latest: &ContainerStatus, sandbox: &SandboxId) -> bool {
    let is_here = latest.sandbox_id == *sandbox || latest.sandbox_id.as_str().is_empty();
    match latest.state {
        ContainerState::Running | ContainerState::Unknown => true,
        ContainerState::Created => is_here && !may_restart_all(pod),
        ContainerState::Exited => is_here,
    }
}

/// Whether a regular container was created, which happens only after all init containers have
/// completed. One of an earlier sandbox does not count for this one, nor does an exited one:
/// it may have exited with an earlier sandbox, at a reboot.
fn any_regular_started(pod: &Pod, status: &RuntimePodStatus, sandbox: &SandboxId) -> bool {
    view::containers(pod).iter().any(|container| {
        let latest = status.latest(&container.name).filter(|one| counts_in(pod, one, sandbox));
        latest.is_some_and(|latest| {
            matches!(latest.state, ContainerState::Created | ContainerState::Running)
        })
    })
}

/// The state of an init container that must complete.
fn finding(pod: &Pod, container: &Container, latest: &ContainerStatus) -> Finding {
    match latest.state {
        ContainerState::Created => Finding::start(StartReason::NeverStarted),
        ContainerState::Running => Finding::WAIT,
        ContainerState::Exited => match init_failure(latest.exit_code, &latest.reason) {
            None => Finding { done: true, ..Finding::WAIT },
            Some(code) if !view::is_being_deleted(pod) && restarts_after(pod, container, code) => {
                Finding::start(StartReason::of_not_running(Some(latest)))
            }
            Some(_) => Finding { failed: true, ..Finding::WAIT },
        },
        ContainerState::Unknown if restart_policy(pod, container) != RestartPolicy::Never => {
            Finding {
                kill: kill_of_unknown(latest),
                ..Finding::start(StartReason::of_not_running(Some(latest)))
            }
        }
        ContainerState::Unknown => Finding { failed: true, ..Finding::WAIT },
    }
}
