//! Decides whether a terminated container is restarted.

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule, Pod};
use model::observed::{ContainerState, ContainerStatus, RuntimePodStatus};

use crate::view;

const INIT_CONTAINERS: &str = "initContainers";
const RESTART: &str = "Restart";
const RESTART_ALL: &str = "RestartAllContainers";
/// The reason of a container that terminated because the kernel killed a process out of memory.
const OOM_KILLED: &str = "OOMKilled";
/// The exit code of a killed container.
const KILLED: i32 = 137;

/// When a terminated container is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartPolicy {
    /// Always.
    Always,
    /// If its exit code is not 0.
    OnFailure,
    /// Not at all.
    Never,
}

impl RestartPolicy {
    fn parse(text: Option<&str>) -> Option<Self> {
        match text? {
            "Always" => Some(Self::Always),
            "OnFailure" => Some(Self::OnFailure),
            "Never" => Some(Self::Never),
            _ => None,
        }
    }

    fn restarts(self, exit_code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => exit_code != 0,
            Self::Never => false,
        }
    }
}

/// The effective policy of a container: its own, else the pod's.
pub fn restart_policy(pod: &Pod, container: &Container) -> RestartPolicy {
    let own = RestartPolicy::parse(container.restart_policy.as_deref());
    own.unwrap_or_else(|| pod_restart_policy(pod))
}

/// The pod's policy; `Always` by default.
pub fn pod_restart_policy(pod: &Pod) -> RestartPolicy {
    let policy = view::spec(pod).and_then(|spec| spec.restart_policy.as_deref());
    RestartPolicy::parse(policy).unwrap_or(RestartPolicy::Always)
}

/// Whether a container must be started, given its latest instance; upstream's
/// `ShouldContainerBeRestarted`. An instance that was created and never started is started again.
pub fn should_restart(pod: &Pod, container: &Container, latest: Option<&ContainerStatus>) -> bool {
    if view::is_being_deleted(pod) {
        return false;
    }
    let Some(latest) = latest else { return true };
    match latest.state {
        ContainerState::Running => false,
        ContainerState::Created | ContainerState::Unknown => true,
        ContainerState::Exited => restarts_after(pod, container, latest.exit_code),
    }
}

/// Whether rules and policies restart a container that terminated with `exit_code`, regardless of
/// the pod's state; upstream's `ContainerShouldRestart`.
pub fn restarts_after(pod: &Pod, container: &Container, exit_code: i32) -> bool {
    let by_rule = matching_rule(container, exit_code)
        .is_some_and(|rule| matches!(rule.action.as_str(), RESTART | RESTART_ALL));
    by_rule || restart_policy(pod, container).restarts(exit_code)
}

/// The exit code of a failed init container; `None` if it succeeded. An init container that was OOM-killed has
/// failed, with any exit code.
pub fn init_failure(exit_code: i32, reason: &str) -> Option<i32> {
    match exit_code {
        0 if reason == OOM_KILLED => Some(KILLED),
        0 => None,
        code => Some(code),
    }
}

/// Whether a rule of the container requires a restart of all containers for `exit_code`.
pub fn restarts_all_after(container: &Container, exit_code: i32) -> bool {
    matching_rule(container, exit_code).is_some_and(|rule| rule.action == RESTART_ALL)
}

/// Whether a rule of the pod may restart all its containers.
pub fn may_restart_all(pod: &Pod) -> bool {
    view::containers(pod)
        .iter()
        .chain(view::init_containers(pod))
        .flat_map(rules)
        .any(|rule| rule.action == RESTART_ALL)
}

/// The paths of restart policies and rules of containers. The restart policy that makes an init container a sidecar
/// is not included.
pub fn own_rules(pod: &Pod) -> Vec<String> {
    let mut paths = Vec::new();
    let mut look = |list: &str, containers: &[Container]| {
        for (index, container) in containers.iter().enumerate() {
            let is_sidecar = list == INIT_CONTAINERS && view::is_sidecar(container);
            if container.restart_policy.is_some() && !is_sidecar {
                paths.push(format!("spec.{list}[{index}].restartPolicy"));
            }
            if container.restart_policy_rules.as_ref().is_some_and(|rules| !rules.is_empty()) {
                paths.push(format!("spec.{list}[{index}].restartPolicyRules"));
            }
        }
    };
    look(INIT_CONTAINERS, view::init_containers(pod));
    look("containers", view::containers(pod));
    paths
}

/// Drops restart policies and rules of containers.
pub fn drop_own_rules(pod: &mut Pod) {
    let Some(spec) = &mut pod.spec else { return };
    for init in spec.init_containers.iter_mut().flatten() {
        if !view::is_sidecar(init) {
            init.restart_policy = None;
        }
        init.restart_policy_rules = None;
    }
    for container in &mut spec.containers {
        container.restart_policy = None;
        container.restart_policy_rules = None;
    }
}

/// The rules of a container. They require a restart policy of the container.
fn rules(container: &Container) -> &[ContainerRestartRule] {
    let rules = container.restart_policy.as_ref().and(container.restart_policy_rules.as_deref());
    rules.unwrap_or_default()
}

/// The first rule that matches `exit_code`.
fn matching_rule(container: &Container, exit_code: i32) -> Option<&ContainerRestartRule> {
    rules(container).iter().find(|rule| {
        rule.exit_codes.as_ref().is_some_and(|codes| {
            let listed = codes.values.as_ref().is_some_and(|values| values.contains(&exit_code));
            match codes.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                _ => false,
            }
        })
    })
}

/// Whether the pod has finished: every regular container terminated and none will be restarted, or an
/// init container failed for good. Sidecars and ephemeral containers do not keep a pod running.
pub fn has_finished(pod: &Pod, status: &RuntimePodStatus) -> bool {
    let containers = view::containers(pod);
    if has_failed_to_initialize(pod, status) {
        return true;
    }
    !containers.is_empty()
        && containers.iter().all(|container| {
            let latest = status.latest(&container.name);
            latest.is_some_and(|latest| latest.state == ContainerState::Exited)
                && !should_restart(pod, container, latest)
        })
}

/// Whether an init container failed and will not be restarted. Once regular containers run, init
/// containers have completed, even if their instances were removed.
fn has_failed_to_initialize(pod: &Pod, status: &RuntimePodStatus) -> bool {
    let running = |container: &Container| {
        let latest = status.latest(&container.name);
        latest.is_some_and(|latest| latest.state == ContainerState::Running)
    };
    if view::containers(pod).iter().any(running) {
        return false;
    }
    view::init_containers(pod).iter().filter(|init| !view::is_sidecar(init)).any(|init| {
        let ended = status.latest(&init.name).filter(|one| one.state == ContainerState::Exited);
        let failure = ended.and_then(|ended| init_failure(ended.exit_code, &ended.reason));
        failure.is_some_and(|code| !restarts_after(pod, init, code))
    })
}
