//! The final status of a pod.

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus,
};
use podspec::view;

use crate::decide::container_status::{STATUS_UNKNOWN, UNSEEN_END, UNSEEN_EXIT_CODE};
use crate::decide::phase::Phase;

/// The status of a pod after its clean-up; upstream's `TerminatePod`. Containers without a known termination are shown
/// as terminated, and a pod without a terminal phase has failed. Static pods keep their phase.
pub fn terminated(pod: &Pod, mut status: PodStatus) -> PodStatus {
    if is_initialized(pod, &status) {
        for container in status.container_statuses.iter_mut().flatten() {
            end(container);
        }
    }
    if let Some(init) = &mut status.init_container_statuses {
        // The first container has started, and so has every one before a started one.
        let begun = init.iter().rposition(has_begun).unwrap_or(0);
        init.iter_mut().take(begun + 1).for_each(end);
    }
    let is_terminal = Phase::of(&status).is_some_and(Phase::is_terminal);
    if !is_terminal && !view::is_static(pod) {
        status.phase = Some(Phase::Failed.as_str().to_owned());
    }
    status
}

fn end(container: &mut ContainerStatus) {
    let state = container.state.get_or_insert_default();
    if state.terminated.is_none() {
        let unknown = ContainerStateTerminated {
            reason: Some(STATUS_UNKNOWN.to_owned()),
            message: Some(UNSEEN_END.to_owned()),
            exit_code: UNSEEN_EXIT_CODE,
            ..ContainerStateTerminated::default()
        };
        *state = ContainerState { terminated: Some(unknown), ..ContainerState::default() };
    }
}

/// Whether a container was ever started.
fn has_begun(container: &ContainerStatus) -> bool {
    let waits = container.state.as_ref().is_none_or(|state| state.waiting.is_some());
    let last = container.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    !waits || last.is_some()
}

/// Whether the init containers have completed.
fn is_initialized(pod: &Pod, status: &PodStatus) -> bool {
    let Some(last) = view::init_containers(pod).last() else { return true };
    if status.container_statuses.iter().flatten().any(has_begun) {
        return true;
    }
    let found = status.init_container_statuses.iter().flatten().find(|one| one.name == last.name);
    let Some(found) = found else { return false };
    let state = found.state.as_ref();
    if view::is_sidecar(last) {
        let runs = state.is_some_and(|state| state.running.is_some());
        return runs && found.started == Some(true);
    }
    let ended_well = |state: &ContainerState| {
        state.terminated.as_ref().is_some_and(|terminated| terminated.exit_code == 0)
    };
    state.is_some_and(ended_well) || found.last_state.as_ref().is_some_and(ended_well)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ContainerStateRunning, ContainerStateWaiting};

    use super::*;
    use crate::decide::test_pods::{container, pod, with_init};

    fn waiting() -> ContainerState {
        ContainerState {
            waiting: Some(ContainerStateWaiting::default()),
            ..ContainerState::default()
        }
    }

    fn running() -> ContainerState {
        ContainerState {
            running: Some(ContainerStateRunning::default()),
            ..ContainerState::default()
        }
    }

    fn one(name: &str, state: ContainerState) -> ContainerStatus {
        ContainerStatus { name: name.to_owned(), state: Some(state), ..ContainerStatus::default() }
    }

    fn status(phase: &str, init: Vec<ContainerStatus>, main: ContainerState) -> PodStatus {
        PodStatus {
            phase: Some(phase.to_owned()),
            init_container_statuses: Some(init),
            container_statuses: Some(vec![one("main", main)]),
            ..PodStatus::default()
        }
    }

    fn reasons(list: Option<&Vec<ContainerStatus>>) -> Vec<&str> {
        let all = list.unwrap().iter().map(|one| {
            let state = one.state.as_ref().unwrap();
            state.terminated.as_ref().map_or("", |end| end.reason.as_deref().unwrap_or("ended"))
        });
        all.collect()
    }

    // behaviour: STW-20
    #[test]
    fn unknown_ends_are_terminated_and_the_pod_failed() {
        let plain = pod("Always", &["main"]);
        let end = terminated(&plain, status("Pending", vec![], waiting()));
        assert_eq!(end.phase.as_deref(), Some("Failed"));
        assert_eq!(reasons(end.container_statuses.as_ref()), [STATUS_UNKNOWN]);
        let ended = status("Succeeded", vec![], running());
        assert_eq!(terminated(&plain, ended).phase.as_deref(), Some("Succeeded"));
        let again = terminated(&plain, end.clone());
        assert_eq!(again, end, "a second time changes nothing");
    }

    // behaviour: STW-21
    #[test]
    fn started_init_containers_are_terminated() {
        let pod = with_init(
            pod("Always", &["main"]),
            vec![container("a"), container("b"), container("c")],
        );
        let init = || vec![one("a", waiting()), one("b", running()), one("c", waiting())];
        let end = terminated(&pod, status("Pending", init(), waiting()));
        assert_eq!(
            reasons(end.init_container_statuses.as_ref()),
            [STATUS_UNKNOWN, STATUS_UNKNOWN, ""]
        );
        assert_eq!(reasons(end.container_statuses.as_ref()), [""], "it never started");
        let none = vec![one("a", waiting()), one("b", waiting()), one("c", waiting())];
        let end = terminated(&pod, status("Pending", none, waiting()));
        assert_eq!(reasons(end.init_container_statuses.as_ref()), [STATUS_UNKNOWN, "", ""]);
    }

    // behaviour: STW-22
    #[test]
    fn static_pod_keeps_its_phase() {
        let mut fixed = pod("Always", &["main"]);
        let mark = ("kubernetes.io/config.source".to_owned(), "file".to_owned());
        fixed.metadata.annotations = Some([mark].into());
        let end = terminated(&fixed, status("Running", vec![], running()));
        assert_eq!(end.phase.as_deref(), Some("Running"));
    }
}
