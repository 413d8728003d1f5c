//! Histories in which a terminated pod is synced or stopped again, and some that only look so.

use std::sync::Arc;

use model::observed::ContainerState::{Created, Exited, Running, Unknown};
use model::observed::SandboxState::{NotReady, Ready};

use super::tests::{
    broken, broken_on, container, initialized, pod, seconds, takes_the_last, wanted, with,
};
use crate::history::{Event, Removed, ReservedName};
use crate::plan::{Action, Policy, RestartRule};

const SENTENCE: Option<&str> = Some("a pod that has terminated is not synced again");

fn sandbox(id: &str, ready: bool) -> Event {
    Event::Sandbox(id.into(), "u".into(), if ready { Ready } else { NotReady })
}

fn make(name: Option<&str>) -> Event {
    Event::CreationRequested(ReservedName {
        uid: "u".into(),
        name: name.map(Arc::from),
        attempt: 1,
    })
}

fn stop_requested() -> Event {
    Event::SandboxStopRequested("s".into())
}

/// The sandbox is stopped, and the agent gets the response.
fn stopped() -> [Event; 3] {
    [stop_requested(), sandbox("s", false), Event::SandboxStopped("s".into())]
}

/// All containers have run in the sandbox; the container ends with this code.
fn ran(policy: Policy, end: impl IntoIterator<Item = Event>) -> Vec<Event> {
    let first = [wanted(policy), sandbox("s", true)].into_iter().chain(initialized());
    first.chain([container("a", 0, Running, Created)]).chain(end).collect()
}

#[test]
fn finds_work_for_a_finished_pod() {
    let ended = || container("a", 0, Exited, Running);
    let failed = || with(ended(), |one| one.exit_code = 1);
    let rows = [
        (Policy::Never, vec![ended()], SENTENCE),
        (Policy::Never, vec![failed()], SENTENCE),
        (Policy::OnFailure, vec![ended()], SENTENCE),
        (Policy::OnFailure, vec![failed()], None),
        (Policy::Always, vec![ended()], None),
        // It was to be replaced, and perhaps ended just before.
        (
            Policy::Never,
            vec![wanted(Policy::Never), Event::StopRequested("a0".into(), seconds(30)), ended()],
            None,
        ),
        (Policy::Never, vec![ended(), Event::StopRequested("a0".into(), seconds(30))], None),
        (Policy::Never, vec![container("a", 0, Exited, Unknown)], None),
        (Policy::Never, vec![ended(), container("a", 1, Created, Created)], None),
    ];
    for (policy, end, expected) in rows {
        for made in [make(None), make(Some("i"))] {
            let history = ran(policy, end.clone());
            // Another agent knows it too.
            let between = [Event::AgentStarted(2), wanted(policy)];
            let all = history.into_iter().chain(stopped()).chain(between).chain([made]);
            assert_eq!(broken(all), expected, "{policy:?} {end:?}");
        }
    }
}

#[test]
fn finds_work_for_a_pod_with_a_failed_init_container() {
    let failed = |code| with(container("i", 0, Exited, Running), |one| one.exit_code = code);
    let again = |code| RestartRule { policy: Policy::Never, action: Action::Restart(code) };
    for (policy, rule, code, expected) in [
        (Policy::Never, None, 1, SENTENCE),
        (Policy::Never, None, 0, None),
        (Policy::OnFailure, None, 1, None),
        (Policy::OnFailure, None, 0, None),
        (Policy::Never, Some(again(1)), 1, None),
        (Policy::OnFailure, Some(again(3)), 1, SENTENCE),
    ] {
        let mut pod = (*pod(policy)).clone();
        pod.init[0].extras.rule = rule;
        let wanted = Event::Wanted("u".into(), Arc::new(pod));
        let first = [wanted, sandbox("s", true), failed(code)];
        let all = first.into_iter().chain(stopped()).chain([make(Some("i"))]);
        assert_eq!(broken(all), expected, "{policy:?} {rule:?} {code}");
    }
}

#[test]
fn unterminated_or_returned_pod_may_be_synced() {
    let ended = || ran(Policy::Never, [container("a", 0, Exited, Running)]);
    let again = || vec![Event::Unwanted("u".into()), wanted(Policy::Never), make(None)];
    assert_eq!(
        broken(ended().into_iter().chain([make(None)])),
        None,
        "its sandbox has not stopped"
    );
    assert_eq!(broken(ended().into_iter().chain(stopped()).chain(again())), None);
    let gone = with(container("a", 0, Exited, Exited), |one| one.state = None);
    let lost = ended().into_iter().chain([gone]).chain(stopped()).chain([make(None)]);
    assert_eq!(broken(lost), None, "its end is not recorded");
}

#[test]
fn pod_whose_end_a_cap_removed_may_run_again_with_a_new_agent() {
    let goes = |rule| Event::RemovalRequested(Removed::Container("a0".into()), rule);
    let (capped, other) = (|| goes("node-cap-oldest"), || Event::AgentStarted(2));
    let rows = [
        (vec![capped()], SENTENCE),
        (vec![capped(), other()], None),
        (vec![other(), capped()], None),
        (vec![other()], SENTENCE),
        (vec![other(), goes("init-container-of-old-sandbox")], SENTENCE),
    ];
    for (events, expected) in rows {
        let ended = ran(Policy::Never, [container("a", 0, Exited, Running)]).into_iter();
        let all = ended.chain(stopped()).chain(events.clone()).chain([make(None)]);
        assert_eq!(broken_on(&takes_the_last(), all), expected, "{events:?}");
    }
}

#[test]
fn finds_second_termination_of_a_pod() {
    let ended = || ran(Policy::Never, [container("a", 0, Exited, Running)]).into_iter();
    assert_eq!(broken(ended().chain(stopped()).chain([stop_requested()])), SENTENCE);
    let excuses = [
        // It does not know the actions of the agent before.
        Event::AgentStarted(2),
        // A stop failed, and it retries.
        Event::StopFailed("side0".to_owned()),
        // A late sandbox.
        sandbox("late", true),
        Event::Unwanted("u".into()),
        // It did not observe the end.
        Event::ReadFaultBegan,
    ];
    for excuse in excuses {
        let all = ended().chain(stopped()).chain([excuse.clone(), stop_requested()]);
        assert_eq!(broken(all), None, "{excuse:?}");
    }
    for (number, expected) in [(0, None), (2, SENTENCE)] {
        // A late sandbox with a lower number is stopped once more when it is collected.
        let numbered = [Event::Numbered("s".into(), 1), Event::Numbered("late".into(), number)];
        let stop = || Event::SandboxStopRequested("late".into());
        let ended_too = [sandbox("late", true), stop(), Event::SandboxStopped("late".into())];
        let all = numbered.into_iter().chain(ended()).chain(stopped()).chain(ended_too);
        assert_eq!(broken(all.chain([stop()])), expected, "{number}");
    }
    let under_way =
        ended().chain([Event::ReadFaultBegan]).chain(stopped()).chain([stop_requested()]);
    assert_eq!(broken(under_way), None);
    let over = [Event::ReadFaultBegan, Event::ReadFaultEnded];
    assert_eq!(broken(ended().chain(over).chain(stopped()).chain([stop_requested()])), SENTENCE);
    let long_ago = std::iter::repeat_n(Event::ClockJumped, 40)
        .chain([Event::ReadFaultBegan, stop_requested()]);
    assert_eq!(broken(ended().chain(stopped()).chain(long_ago)), SENTENCE);
    let tried = [stop_requested(), Event::StopFailed("s".to_owned())];
    assert_eq!(
        broken(ended().chain(tried).chain(stopped())),
        None,
        "it was not terminated at once"
    );
    let elsewhere = ran(Policy::Always, [container("a", 0, Exited, Running)]).into_iter();
    assert_eq!(broken(elsewhere.chain(stopped()).chain([stop_requested()])), None, "it continues");
}

#[test]
fn finds_work_for_an_orphan_that_is_being_removed() {
    let remove = |rule| Event::RemovalRequested(Removed::Sandbox("s".into()), rule);
    let wait = |seconds| std::iter::repeat_n(Event::ClockJumped, seconds);
    for (seconds, rule, expected) in [
        (60, "pod-is-gone", SENTENCE),
        (60, "pod-deleted", SENTENCE),
        (60, "sandbox-older", None),
        // The agent may have begun the removal before it observed that the pod is wanted again.
        (10, "pod-is-gone", None),
    ] {
        let history = || {
            let ended = [container("a", 0, Exited, Running), sandbox("s", false)];
            let gone = [Event::Unwanted("u".into())].into_iter().chain(wait(seconds));
            ran(Policy::Always, ended).into_iter().chain(gone).chain([remove(rule)])
        };
        assert_eq!(broken(history().chain([make(None)])), expected, "{seconds} {rule}");
        let again = [wanted(Policy::Always), make(None)];
        assert_eq!(broken(history().chain(again)), None, "{seconds} {rule}");
    }
}

#[test]
fn late_sandbox_must_be_stopped_too_before_the_pod_has_terminated() {
    let ended = || container("a", 0, Exited, Running);
    let numbered = |id: &str, number| Event::Numbered(id.into(), number);
    let late = |ready| sandbox("late", ready);
    let stop_answered = || Event::SandboxStopped("s".into());
    let rows = [
        (vec![stop_requested(), sandbox("s", false), stop_answered()], SENTENCE),
        (vec![stop_requested(), sandbox("s", false), late(true), stop_answered()], None),
        (vec![late(true), stop_requested(), sandbox("s", false), stop_answered()], None),
        (
            vec![late(true), late(false), stop_requested(), sandbox("s", false), stop_answered()],
            SENTENCE,
        ),
    ];
    for (events, expected) in rows {
        let first = [numbered("s", 1), numbered("late", 0)].into_iter();
        let all = first
            .chain(ran(Policy::Never, [ended()]))
            .chain(events.clone())
            .chain([stop_requested()]);
        assert_eq!(broken(all), expected, "{events:?}");
    }
}
