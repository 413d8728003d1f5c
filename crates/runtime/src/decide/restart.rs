//! Whether a container that is not running runs again.

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule, Pod};
use model::observed::{ContainerState, ContainerStatus, PodStatus};
use podspec::view;

/// When an ended container is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartPolicy {
    /// Whatever its exit code.
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

/// The policy that counts for a container: its own, else the pod's.
pub fn restart_policy(pod: &Pod, container: &Container) -> RestartPolicy {
    let own = RestartPolicy::parse(container.restart_policy.as_deref());
    own.unwrap_or_else(|| pod_restart_policy(pod))
}

/// The pod's policy; `Always` unless it says otherwise, as the API server defaults it.
pub(crate) fn pod_restart_policy(pod: &Pod) -> RestartPolicy {
    let policy = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
    RestartPolicy::parse(policy).unwrap_or(RestartPolicy::Always)
}

/// Whether a container is to be started, given its latest instance; upstream's
/// `ShouldContainerBeRestarted`. An instance that was made and never started is started anew.
pub fn should_restart(pod: &Pod, container: &Container, latest: Option<&ContainerStatus>) -> bool {
    if pod.metadata.deletion_timestamp.is_some() {
        return false;
    }
    let Some(latest) = latest else { return true };
    match latest.state {
        ContainerState::Running => false,
        ContainerState::Created | ContainerState::Unknown => true,
        ContainerState::Exited => {
            // Rules refine the container's own policy and mean nothing without one.
            let rules =
                container.restart_policy.as_ref().and(container.restart_policy_rules.as_ref());
            let by_rule = rules
                .is_some_and(|rules| rules.iter().any(|rule| matches_exit(rule, latest.exit_code)));
            by_rule || restart_policy(pod, container).restarts(latest.exit_code)
        }
    }
}

fn matches_exit(rule: &ContainerRestartRule, exit_code: i32) -> bool {
    let known = matches!(rule.action.as_str(), "Restart" | "RestartAllContainers");
    let Some(exit_codes) = rule.exit_codes.as_ref().filter(|_| known) else { return false };
    let listed = exit_codes.values.as_ref().is_some_and(|values| values.contains(&exit_code));
    match exit_codes.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        _ => false,
    }
}

/// Whether the pod has run to its end: every container ended and none will run again.
pub fn has_finished(pod: &Pod, status: &PodStatus) -> bool {
    let containers = view::containers(pod);
    !containers.is_empty()
        && containers.iter().all(|container| {
            let latest = status.latest(&container.name);
            latest.is_some_and(|latest| latest.state == ContainerState::Exited)
                && !should_restart(pod, container, latest)
        })
}

#[cfg(test)]
#[path = "restart_tests.rs"]
mod tests;
