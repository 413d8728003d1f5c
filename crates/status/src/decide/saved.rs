//! Prepares saved statuses for the next agent.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use model::observed;
use podspec::view;

use crate::decide::conditions::DISRUPTION_TARGET;
use crate::decide::phase::Phase;

/// The pods whose statuses are saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SavedPods {
    /// All pods: there is no API server that stores statuses.
    All,
    /// Static pods: the status of a mirror pod is not read back.
    Static,
}

impl SavedPods {
    /// Whether the status of a pod is saved.
    pub(crate) fn includes(self, pod: &Pod) -> bool {
        self == Self::All || view::is_static(pod)
    }
}

/// A saved status as the base of the next one. A terminal phase and its reasons are dropped: whether a static pod
/// runs again is decided by its containers.
pub(crate) fn restored(mut status: PodStatus) -> PodStatus {
    if Phase::of(&status).is_some_and(Phase::is_terminal) {
        (status.phase, status.reason, status.message) = (None, None, None);
        if let Some(conditions) = &mut status.conditions {
            conditions.retain(|condition| condition.type_ != DISRUPTION_TARGET);
        }
    }
    status
}

/// The saved status, unless the runtime has no container of a pod that ran, as after a reboot, or when the manifest
/// of a terminated pod is back: then the pod starts from the beginning, as static pods do upstream.
pub(crate) fn base<'a>(
    saved: Option<&'a PodStatus>,
    observed: &observed::RuntimePodStatus,
) -> Option<&'a PodStatus> {
    saved.filter(|saved| !observed.containers.is_empty() || !has_run(saved))
}

fn has_run(status: &PodStatus) -> bool {
    let lists = [&status.init_container_statuses, &status.container_statuses];
    let ran = |container: &ContainerStatus| {
        let state = container.state.as_ref();
        let left_waiting =
            state.is_some_and(|state| state.running.is_some() || state.terminated.is_some());
        left_waiting || container.last_state.is_some()
    };
    lists.into_iter().flatten().flatten().any(ran)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{
        ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    };
    use model::observed::SandboxState;

    use super::*;
    use crate::decide::test_pods::{condition, instance, sandbox};

    fn with(state: ContainerState, last_state: Option<ContainerState>) -> PodStatus {
        let container =
            ContainerStatus { state: Some(state), last_state, ..ContainerStatus::default() };
        PodStatus { container_statuses: Some(vec![container]), ..PodStatus::default() }
    }

    // behaviour: STW-51
    #[test]
    fn saved_status_is_the_base_unless_the_runtime_lost_the_pod() {
        let waiting = || ContainerState {
            waiting: Some(ContainerStateWaiting::default()),
            ..ContainerState::default()
        };
        let running = ContainerState {
            running: Some(ContainerStateRunning::default()),
            ..ContainerState::default()
        };
        let terminated = ContainerState {
            terminated: Some(ContainerStateTerminated::default()),
            ..ContainerState::default()
        };
        let empty = observed::RuntimePodStatus::empty("u1".into());
        let mut ended = empty.clone();
        ended.sandboxes.push(sandbox(SandboxState::NotReady));
        let mut present = ended.clone();
        present.containers.push(instance("a-0", observed::ContainerState::Exited, 0));
        let rows = [
            ("never started", with(waiting(), None), true),
            ("running", with(running, None), false),
            ("ended", with(terminated.clone(), None), false),
            ("ended before", with(waiting(), Some(terminated)), false),
        ];
        for (row, saved, is_base_after_reboot) in rows {
            for lost in [&empty, &ended] {
                assert_eq!(base(Some(&saved), lost).is_some(), is_base_after_reboot, "{row}");
            }
            assert_eq!(base(Some(&saved), &present), Some(&saved), "{row}");
        }
        assert_eq!(base(None, &present), None);
    }

    // behaviour: STW-52
    #[test]
    fn restored_status_has_no_terminal_phase() {
        for (phase, is_kept) in [("Pending", true), ("Running", true), ("Failed", false)] {
            let conditions =
                vec![condition("DisruptionTarget", "True"), condition("Ready", "False")];
            let status = restored(PodStatus {
                phase: Some(phase.to_owned()),
                reason: Some("Evicted".to_owned()),
                conditions: Some(conditions),
                ..PodStatus::default()
            });
            assert_eq!((status.phase.is_some(), status.reason.is_some()), (is_kept, is_kept));
            assert_eq!(status.conditions.unwrap().len(), 1 + usize::from(is_kept), "{phase}");
        }
    }
}
