//! What is told of containers that go so that all of their pod start over, because of how one of them ended.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStateWaiting};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use model::observed;
use podspec::{restart, view};

use crate::decide::conditions::is_restarting_all;
use crate::decide::container_status::UNSEEN_EXIT_CODE;
use crate::decide::input::StatusInput;

/// Why a container that is to run again has ended, and waits.
pub(super) const REASON: &str = "RestartingAllContainers";
const MESSAGE: &str = "The container is removed because RestartAllContainers in place";

/// Whether an exit asks for it, or it is under way.
pub(super) fn starts_over(input: &StatusInput<'_>) -> bool {
    let under_way = || input.base().is_some_and(is_restarting_all);
    restart::may_restart_all(input.pod) && (is_asked_for(input.pod, input.observed) || under_way())
}

fn is_asked_for(pod: &Pod, observed: &observed::PodStatus) -> bool {
    let mut containers = view::containers(pod).iter().chain(view::init_containers(pod));
    containers.any(|one| {
        observed.latest(&one.name).is_some_and(|latest| {
            latest.state == observed::ContainerState::Exited
                && restart::restarts_all_after(one, latest.exit_code)
        })
    })
}

/// Whether this was told of a container, and it has not been made again.
fn is_told(old: &ContainerStatus) -> bool {
    waiting(old).is_some_and(|waiting| waiting.reason.as_deref() == Some(REASON))
}

fn waiting(status: &ContainerStatus) -> Option<&ContainerStateWaiting> {
    status.state.as_ref()?.waiting.as_ref()
}

/// Whether a container that is not there has gone so that all start over.
pub(super) fn has_gone(input: &StatusInput<'_>, old: &ContainerStatus) -> bool {
    is_told(old) || starts_over(input)
}

/// What is told of it: this, if it waited before.
pub(super) fn gone(status: ContainerStatus, old: &ContainerStatus) -> ContainerStatus {
    if is_told(old) {
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
    use crate::decide::test_pods::{World, container, instance, pod, with_init};

    /// A pod that starts over when `a` ends with 7, and else is over with its containers.
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

    /// Each container: whether it waits and why, how it ended before, and its number.
    fn told(status: &PodStatus) -> Vec<String> {
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
    fn what_goes_so_that_all_start_over_waits_and_its_end_ends_no_pod() {
        let (first, a) = (instance("first-0", Exited, 0), instance("a-0", Exited, 7));
        let all = vec![first, instance("a-0", Running, 0), instance("b-0", Running, 0)];
        let mut world = World::new(ruled(), all);
        let mut look = |instances: Option<Vec<observed::ContainerStatus>>| {
            if let Some(instances) = instances {
                world.observed.containers = instances;
            }
            let status = world.status();
            world.previous = Some(status.clone());
            (phase(&status).to_owned(), told(&status))
        };
        look(None);
        // What is not the cause goes first, the init container before it.
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
        // Told once, however often it is looked.
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
    fn an_init_container_that_asks_goes_last_and_what_never_ran_waits_as_before() {
        let mut pod = ruled();
        let spec = pod.spec.as_mut().unwrap();
        let asks = Container { name: "asks".to_owned(), ..spec.containers[0].clone() };
        spec.init_containers.get_or_insert_default().push(asks);
        let first = |id: &str| instance(id, Exited, 0);
        let mut world = World::new(pod, vec![first("first-0"), instance("asks-0", Running, 0)]);
        world.previous = Some(world.status());
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
            world.observed.containers = instances;
            let status = world.status();
            assert_eq!(told(&status), [&expected[..], &never_ran[..]].concat());
            assert_eq!(phase(&status), "Pending");
            world.previous = Some(status);
        }
    }

    // behaviour: ACT-143
    #[test]
    fn what_is_guessed_of_an_init_container_of_which_nothing_was_told_stays() {
        let mut world = World::new(ruled(), vec![instance("a-0", Exited, 7)]);
        for _ in 0..2 {
            let status = world.status();
            assert_eq!(told(&status)[0], "first #0 ended 0");
            world.previous = Some(status);
        }
    }

    // behaviour: ACT-143
    #[test]
    fn a_pod_is_not_over_as_long_as_one_that_went_has_not_run_again() {
        let mut world = World::new(ruled(), vec![instance("a-0", Exited, 7)]);
        let mut before =
            World::new(ruled(), vec![instance("a-0", Running, 0), instance("b-0", Running, 0)])
                .status();
        for _ in 0..2 {
            world.previous = Some(before);
            before = world.status();
            world.observed.containers.clear();
        }
        // One of them runs to its end, the other cannot be made yet.
        let failure = Waiting { reason: "ErrImagePull", message: String::new() };
        world.start_failures.insert("b".to_owned(), failure);
        world.observed.containers =
            vec![instance("first-1", Exited, 0), instance("a-1", Exited, 0)];
        world.previous = Some(before);
        assert_eq!(phase(&world.status()), "Running");
        world.start_failures.clear();
        world.observed.containers.push(instance("b-1", Exited, 0));
        assert_eq!(phase(&world.status()), "Succeeded");
    }
}
