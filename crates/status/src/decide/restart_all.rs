//! The statuses of containers that are removed for a restart of all containers of their pod.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStateWaiting};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use model::observed;
use podspec::{restart, view};

use crate::decide::conditions::is_restarting_all;
use crate::decide::container_status::UNSEEN_EXIT_CODE;
use crate::decide::input::StatusInput;

/// The reason of a container's termination and wait during a restart of all containers.
pub(super) const REASON: &str = "RestartingAllContainers";
const MESSAGE: &str = "The container is removed because RestartAllContainers in place";

/// Whether an exit requires a restart of all containers, or one is in progress.
pub(super) fn starts_over(input: &StatusInput<'_>) -> bool {
    let under_way = || input.base().is_some_and(is_restarting_all);
    restart::may_restart_all(input.pod) && (is_required(input.pod, input.observed) || under_way())
}

fn is_required(pod: &Pod, observed: &observed::RuntimePodStatus) -> bool {
    let mut containers = view::containers(pod).iter().chain(view::init_containers(pod));
    containers.any(|one| {
        observed.latest(&one.name).is_some_and(|latest| {
            latest.state == observed::ContainerState::Exited
                && restart::restarts_all_after(one, latest.exit_code)
        })
    })
}

/// Whether the status shows the removal of a container that was not created again.
fn is_removed(old: &ContainerStatus) -> bool {
    waiting(old).is_some_and(|waiting| waiting.reason.as_deref() == Some(REASON))
}

fn waiting(status: &ContainerStatus) -> Option<&ContainerStateWaiting> {
    status.state.as_ref()?.waiting.as_ref()
}

/// Whether a missing container was removed for the restart of all.
pub(super) fn is_removed_for_restart(input: &StatusInput<'_>, old: &ContainerStatus) -> bool {
    is_removed(old) || starts_over(input)
}

/// The status of a removed container; the reason is kept if it waited before.
pub(super) fn gone(status: ContainerStatus, old: &ContainerStatus) -> ContainerStatus {
    if is_removed(old) {
        return ContainerStatus { state: old.state.clone(), ..status };
    }
    if waiting(old).is_some() {
        return status;
    }
    let (reason, message) = (Some(REASON.to_owned()), Some(MESSAGE.to_owned()));
    let end = ContainerStateTerminated {
        exit_code: UNSEEN_EXIT_CODE,
        reason: reason.clone(),
        message: message.clone(),
        ..ContainerStateTerminated::default()
    };
    let waiting = ContainerStateWaiting { reason, message };
    ContainerStatus {
        state: Some(ContainerState { waiting: Some(waiting), ..ContainerState::default() }),
        last_state: Some(ContainerState { terminated: Some(end), ..ContainerState::default() }),
        restart_count: old.restart_count.saturating_add(1),
        ..status
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{
        Container, ContainerRestartRule, ContainerRestartRuleOnExitCodes, PodStatus,
    };
    use model::observed::ContainerState::{Exited, Running};

    use super::*;
    use crate::decide::Waiting;
    use crate::decide::test_pods::{Harness, container, instance, pod, with_init};

    /// A pod that restarts all containers when `a` exits with 7, and otherwise terminates with its containers.
    fn ruled() -> Pod {
        let mut pod = with_init(pod("Never", &["a", "b"]), vec![container("first")]);
        let a = &mut pod.spec.as_mut().unwrap().containers[0];
        a.restart_policy = Some("Never".to_owned());
        a.restart_policy_rules = Some(vec![ContainerRestartRule {
            action: "RestartAllContainers".to_owned(),
            exit_codes: Some(ContainerRestartRuleOnExitCodes {
                operator: "In".to_owned(),
                values: Some(vec![7]),
            }),
        }]);
        pod
    }

    /// The containers: state, last state and restart count.
    fn lines(status: &PodStatus) -> Vec<String> {
        let all = status.init_container_statuses.iter().chain(&status.container_statuses);
        let one = |one: &ContainerStatus| {
            let state = one.state.clone().unwrap_or_default();
            let now = match (state.waiting, state.terminated) {
                (Some(waiting), _) => format!("waits {}", waiting.reason.unwrap_or_default()),
                (_, Some(end)) => format!("ended {}", end.exit_code),
                _ => "runs".to_owned(),
            };
            let last = one.last_state.as_ref().and_then(|last| last.terminated.as_ref());
            let last = last.map(|end| {
                format!(", before {} {}", end.exit_code, end.reason.as_deref().unwrap_or(""))
            });
            format!("{} #{} {now}{}", one.name, one.restart_count, last.unwrap_or_default())
        };
        all.flatten().map(one).collect()
    }

    fn phase(status: &PodStatus) -> &str {
        status.phase.as_deref().unwrap_or_default()
    }

    // behaviour: ACT-143
    #[test]
    fn container_removed_for_restart_of_all_waits_and_pod_continues() {
        let (first, a) = (instance("first-0", Exited, 0), instance("a-0", Exited, 7));
        let all = vec![first, instance("a-0", Running, 0), instance("b-0", Running, 0)];
        let mut harness = Harness::new(ruled(), all);
        let mut look = |instances: Option<Vec<observed::ContainerStatus>>| {
            if let Some(instances) = instances {
                harness.observed.containers = instances;
            }
            let status = harness.status();
            harness.previous = Some(status.clone());
            (phase(&status).to_owned(), lines(&status))
        };
        look(None);
        // Other containers are removed first, the init container before them.
        let (phase, each) = look(Some(vec![a]));
        assert_eq!(phase, "Running");
        let gone = "waits RestartingAllContainers, before 137 RestartingAllContainers";
        assert_eq!(
            each,
            [format!("first #1 {gone}"), "a #0 ended 7".into(), format!("b #1 {gone}")]
        );
        let (phase, each) = look(Some(vec![]));
        assert_eq!(phase, "Running");
        assert_eq!(each, ["first", "a", "b"].map(|name| format!("{name} #1 {gone}")));
        // Counted once, however often it is observed.
        let before = "before 137 RestartingAllContainers";
        let (_, each) =
            look(Some(vec![instance("first-1", Exited, 0), instance("a-1", Exited, 0)]));
        assert_eq!(
            each,
            [
                format!("first #1 ended 0, {before}"),
                format!("a #1 ended 0, {before}"),
                format!("b #1 {gone}"),
            ]
        );
    }

    // behaviour: ACT-143
    #[test]
    fn init_container_that_restarts_all_is_removed_last() {
        let mut pod = ruled();
        let spec = pod.spec.as_mut().unwrap();
        let asks = Container { name: "asks".to_owned(), ..spec.containers[0].clone() };
        spec.init_containers.get_or_insert_default().push(asks);
        let first = |id: &str| instance(id, Exited, 0);
        let mut harness = Harness::new(pod, vec![first("first-0"), instance("asks-0", Running, 0)]);
        harness.previous = Some(harness.status());
        let gone = "waits RestartingAllContainers, before 137 RestartingAllContainers";
        let before = "before 137 RestartingAllContainers";
        let rows = [
            (
                vec![instance("asks-0", Exited, 7)],
                [format!("first #1 {gone}"), "asks #0 ended 7".to_owned()],
            ),
            (vec![], [format!("first #1 {gone}"), format!("asks #1 {gone}")]),
            (
                vec![first("first-1"), instance("asks-1", Running, 0)],
                [format!("first #1 ended 0, {before}"), format!("asks #1 runs, {before}")],
            ),
        ];
        let never_ran = ["a", "b"].map(|name| format!("{name} #0 waits PodInitializing"));
        for (instances, expected) in rows {
            harness.observed.containers = instances;
            let status = harness.status();
            assert_eq!(lines(&status), [&expected[..], &never_ran[..]].concat());
            assert_eq!(phase(&status), "Pending");
            harness.previous = Some(status);
        }
    }

    // behaviour: ACT-143
    #[test]
    fn inferred_init_container_status_is_kept() {
        let mut harness = Harness::new(ruled(), vec![instance("a-0", Exited, 7)]);
        for _ in 0..2 {
            let status = harness.status();
            assert_eq!(lines(&status)[0], "first #0 ended 0");
            harness.previous = Some(status);
        }
    }

    // behaviour: ACT-143
    #[test]
    fn pod_is_not_terminal_until_removed_containers_ran_again() {
        let mut harness = Harness::new(ruled(), vec![instance("a-0", Exited, 7)]);
        let mut before =
            Harness::new(ruled(), vec![instance("a-0", Running, 0), instance("b-0", Running, 0)])
                .status();
        for _ in 0..2 {
            harness.previous = Some(before);
            before = harness.status();
            harness.observed.containers.clear();
        }
        // One of them completes, the other cannot be created yet.
        let failure = Waiting { reason: "ErrImagePull", message: String::new() };
        harness.start_failures.insert("b".to_owned(), failure);
        harness.observed.containers =
            vec![instance("first-1", Exited, 0), instance("a-1", Exited, 0)];
        harness.previous = Some(before);
        assert_eq!(phase(&harness.status()), "Running");
        harness.start_failures.clear();
        harness.observed.containers.push(instance("b-1", Exited, 0));
        assert_eq!(phase(&harness.status()), "Succeeded");
    }
}
