//! Detects impossible changes of container states.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodStatus};
use podspec::{restart, view};

type Statuses<'a> = Option<&'a Vec<ContainerStatus>>;

/// The violation, if a container that terminated for good is not terminated any more; upstream's
/// `checkContainerStateTransition`. A new instance is not a violation here: it was observed, and hiding it would
/// make the status wrong for as long as it runs.
pub(crate) fn illegal_transition(
    pod: &Pod,
    before: &PodStatus,
    after: &PodStatus,
) -> Option<String> {
    if restart::may_restart_all(pod) {
        return None;
    }
    let text = |kind: &str, container: &Container| {
        let name = &container.name;
        format!("terminated {kind} {name} attempted illegal transition to non-terminated state")
    };
    let (regular, init) = (view::containers(pod), view::init_containers(pod));
    let of_regular = regular.iter().find(|container| {
        let before = find(before.container_statuses.as_ref(), container);
        let after = find(after.container_statuses.as_ref(), container);
        is_violation(pod, container, before.zip(after))
    });
    let of_init = init.iter().filter(|init| !view::is_sidecar(init)).find(|container| {
        let before = find(before.init_container_statuses.as_ref(), container);
        let after = find(after.init_container_statuses.as_ref(), container);
        is_violation(pod, container, before.zip(after))
    });
    of_regular
        .map(|container| text("container", container))
        .or_else(|| of_init.map(|container| text("init container", container)))
}

fn find<'a>(statuses: Statuses<'a>, container: &Container) -> Option<&'a ContainerStatus> {
    statuses.into_iter().flatten().find(|status| status.name == container.name)
}

fn is_violation(
    pod: &Pod,
    container: &Container,
    change: Option<(&ContainerStatus, &ContainerStatus)>,
) -> bool {
    let Some((before, after)) = change else { return false };
    let end = |status: &ContainerStatus| status.state.clone().and_then(|state| state.terminated);
    let Some(end_before) = end(before) else { return false };
    let is_new_instance = after.container_id.is_some() && after.container_id != before.container_id;
    !restart::restarts_after(pod, container, end_before.exit_code)
        && end(after).is_none()
        && !is_new_instance
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{
        ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    };

    use super::*;
    use crate::decide::test_pods::{container, pod, sidecar, with_init};

    fn status(name: &str, id: &str, state: ContainerState) -> ContainerStatus {
        ContainerStatus {
            name: name.to_owned(),
            container_id: Some(id.to_owned()),
            state: Some(state),
            ..ContainerStatus::default()
        }
    }

    fn ended(exit_code: i32) -> ContainerState {
        let terminated = ContainerStateTerminated { exit_code, ..Default::default() };
        ContainerState { terminated: Some(terminated), ..ContainerState::default() }
    }

    fn running() -> ContainerState {
        let running = Some(ContainerStateRunning::default());
        ContainerState { running, ..ContainerState::default() }
    }

    fn waiting() -> ContainerState {
        let waiting = Some(ContainerStateWaiting::default());
        ContainerState { waiting, ..ContainerState::default() }
    }

    // behaviour: STW-46
    #[test]
    fn container_that_ended_for_good_stays_terminated() {
        let rows = [
            ("Never", ended(1), ("1", running()), true),
            ("Never", ended(0), ("1", waiting()), true),
            ("Never", ended(0), ("1", ended(0)), false),
            ("Never", running(), ("1", waiting()), false),
            // The observed state is published.
            ("Never", ended(1), ("2", running()), false),
            ("OnFailure", ended(0), ("1", waiting()), true),
            ("OnFailure", ended(1), ("1", waiting()), false),
            ("Always", ended(0), ("1", waiting()), false),
        ];
        for (policy, before, (id, after), expected) in rows {
            let of = |id: &str, state: &ContainerState| PodStatus {
                container_statuses: Some(vec![status("main", id, state.clone())]),
                ..PodStatus::default()
            };
            let pod = pod(policy, &["main"]);
            let found = illegal_transition(&pod, &of("1", &before), &of(id, &after));
            let text =
                "terminated container main attempted illegal transition to non-terminated state";
            assert_eq!(found.as_deref(), expected.then_some(text), "{policy} {before:?} {after:?}");
        }
    }

    #[test]
    fn init_containers_stay_terminated_and_sidecars_do_not() {
        let pod = with_init(pod("Never", &["main"]), vec![sidecar("beside"), container("init")]);
        let of = |name: &str, state: ContainerState| PodStatus {
            init_container_statuses: Some(vec![status(name, "1", state)]),
            ..PodStatus::default()
        };
        let text =
            "terminated init container init attempted illegal transition to non-terminated state";
        for (name, expected) in [("init", Some(text)), ("beside", None)] {
            let found = illegal_transition(&pod, &of(name, ended(0)), &of(name, running()));
            assert_eq!(found.as_deref(), expected);
        }
    }

    #[test]
    fn container_restart_policy_is_used() {
        let mut pod = pod("Never", &["main"]);
        pod.spec.as_mut().unwrap().containers[0].restart_policy = Some("OnFailure".to_owned());
        let of = |state: ContainerState| PodStatus {
            container_statuses: Some(vec![status("main", "1", state)]),
            ..PodStatus::default()
        };
        assert_eq!(illegal_transition(&pod, &of(ended(1)), &of(waiting())), None);
        assert!(illegal_transition(&pod, &of(ended(0)), &of(waiting())).is_some());
    }
}
