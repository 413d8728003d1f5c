use model::ids::PodName;
use model::observed::{SandboxState, SandboxStatus};
use testkit::pods::pod;

use super::*;

const NOW: i64 = 1000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn observed(sandbox: Option<SandboxState>) -> RuntimePodStatus {
    let sandbox = sandbox.map(|state| SandboxStatus {
        id: "sandbox".into(),
        pod_uid: "uid-of-web".into(),
        pod: PodName::new("default", "web"),
        attempt: 0,
        state,
        created_at: at(0),
        ips: vec![],
        host_network: false,
        given: None,
    });
    let sandboxes = sandbox.into_iter().collect();
    RuntimePodStatus { sandboxes, ..RuntimePodStatus::empty("uid-of-web".into()) }
}

fn input<'a>(pod: &'a Pod, observed: &'a RuntimePodStatus) -> SyncInput<'a> {
    SyncInput {
        pod,
        observed,
        has_finished: false,
        has_terminal_phase: false,
        deadline: None,
        unsupported: None,
        network_error: None,
        now: at(NOW),
    }
}

fn unsupported() -> Unsupported {
    Unsupported { reason: "FailedMount", message: "no volumes".to_owned() }
}

fn no_network() -> String {
    "no CNI".to_owned()
}

/// The wait of a plan, as its object, retry, and the reason and message of its event.
fn wait_of(plan: SyncPlan) -> (WaitOn, Retry, String, String) {
    let SyncPlan::Wait(Wait { on, at_latest, event }) = plan else { panic!("{plan:?}") };
    let event = event.unwrap();
    (on, at_latest, event.reason.into_owned(), event.message)
}

#[test]
fn finished_pod_is_not_synced() {
    let (pod, none) = (pod("web").build(), observed(None));
    // Regardless of the other inputs.
    let other = SyncInput {
        deadline: Some(at(NOW - 1)),
        unsupported: Some(unsupported()),
        network_error: Some(no_network()),
        ..input(&pod, &none)
    };
    let finished = SyncInput { has_finished: true, ..other.clone() };
    assert_eq!(sync_plan(&finished), SyncPlan::Finished);
    let terminal = SyncInput { has_terminal_phase: true, ..other };
    assert_eq!(sync_plan(&terminal), SyncPlan::Finished);
}

#[test]
fn deadline_is_exceeded_at_its_time_and_reported_unless_the_pod_was_stopped_before() {
    let pod = pod("web").build();
    let rows = [
        (None, NOW + 1, SyncPlan::Act),
        (None, NOW, SyncPlan::DeadlineExceeded { report: true }),
        (Some(SandboxState::Ready), NOW - 1, SyncPlan::DeadlineExceeded { report: true }),
        (Some(SandboxState::NotReady), NOW - 1, SyncPlan::DeadlineExceeded { report: false }),
    ];
    for (sandbox, deadline, expected) in rows {
        let observed = observed(sandbox);
        let deadline = Some(at(deadline));
        let plan = sync_plan(&SyncInput { deadline, ..input(&pod, &observed) });
        assert_eq!(plan, expected, "{sandbox:?} {deadline:?}");
        let unsupported = Some(unsupported());
        let waiting = SyncInput { deadline, unsupported, ..input(&pod, &observed) };
        assert_eq!(matches!(sync_plan(&waiting), SyncPlan::Wait(_)), expected == SyncPlan::Act);
    }
}

#[test]
fn pod_waits_for_a_network_only_when_it_needs_one() {
    let own = pod("web").build();
    let of_host = pod("web").spec(|spec| spec.host_network = Some(true)).build();
    let rows = [
        (&own, None, true),
        (&own, Some(SandboxState::NotReady), true),
        (&own, Some(SandboxState::Ready), false),
        (&of_host, None, false),
    ];
    for (pod, sandbox, waits) in rows {
        let observed = observed(sandbox);
        let ready = input(pod, &observed);
        assert_eq!(sync_plan(&ready), SyncPlan::Act);
        let plan = sync_plan(&SyncInput { network_error: Some(no_network()), ..ready });
        if !waits {
            assert_eq!(plan, SyncPlan::Act, "{sandbox:?}");
            continue;
        }
        let (reason, message) = ("NetworkNotReady".into(), "network is not ready: no CNI".into());
        assert_eq!(wait_of(plan), (WaitOn::Network, Retry::Network, reason, message));
    }
}

#[test]
fn unsupported_pod_waits_whether_there_is_a_network_or_not() {
    let pod = pod("web").build();
    for (sandbox, network_error) in [(None, Some(no_network())), (Some(SandboxState::Ready), None)]
    {
        let observed = observed(sandbox);
        let unsupported = Some(unsupported());
        let plan = sync_plan(&SyncInput { unsupported, network_error, ..input(&pod, &observed) });
        let message = "no volumes".to_owned();
        let expected = WaitOn::Unsupported(message.clone());
        assert_eq!(wait_of(plan), (expected, Retry::Failure, "FailedMount".into(), message));
    }
}

#[test]
fn wait_ends_no_later_than_the_deadline() {
    let (pod, none) = (pod("web").build(), observed(None));
    for (left, retry) in [(5, Retry::Deadline(at(NOW + 5))), (60, Retry::Failure)] {
        let (deadline, unsupported) = (Some(at(NOW + left)), Some(unsupported()));
        let plan = sync_plan(&SyncInput { deadline, unsupported, ..input(&pod, &none) });
        assert_eq!(wait_of(plan).1, retry, "{left}");
    }
}
