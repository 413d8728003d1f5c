//! The phases.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodStatus};
use model::observed::ContainerState::{Created, Exited, Running};
use model::pod_failure::PodFailure;

use crate::decide::container_statuses::Containers;
use crate::decide::phase::{Phase, Situation, held_back, phase};
use crate::decide::test_pods::{
    World, container, ended, instance, pod, running, sidecar, status, time, waiting, with_init,
};

/// `r` runs, `0` and `1` ended so, `w` never ran, `b` failed and waits, `s` succeeded and waits, `-`
/// has no status, `?` has one without a state.
fn of_letter(name: &str, letter: char) -> Option<ContainerStatus> {
    let again = |exit_code| ContainerStatus {
        last_state: Some(ended(exit_code)),
        ..status(name, waiting("CrashLoopBackOff"))
    };
    Some(match letter {
        'r' => status(name, running(21)),
        'n' => ContainerStatus { started: Some(false), ..status(name, running(21)) },
        '0' => status(name, ended(0)),
        '1' => status(name, ended(1)),
        'w' => status(name, waiting("ContainerCreating")),
        'b' => again(1),
        's' => again(0),
        '?' => ContainerStatus { state: None, ..status(name, waiting("")) },
        '-' => return None,
        _ => panic!("no such state: {letter}"),
    })
}

fn statuses(containers: &[Container], letters: &str) -> Vec<ContainerStatus> {
    assert_eq!(containers.len(), letters.len());
    let each = containers.iter().zip(letters.chars());
    each.filter_map(|(one, letter)| of_letter(&one.name, letter)).collect()
}

/// The phase of a pod whose init and regular containers are in these states.
fn phase_of(pod: &Pod, letters: (&str, &str), situation: Situation) -> Phase {
    let spec = pod.spec.as_ref().unwrap();
    let containers = Containers {
        init: statuses(spec.init_containers.as_deref().unwrap_or_default(), letters.0),
        regular: statuses(&spec.containers, letters.1),
        ephemeral: vec![],
    };
    phase(pod, &containers, situation)
}

const LIVE: Situation = Situation { stopped_for_good: false, initialized: false };
const INITIALIZED: Situation = Situation { initialized: true, ..LIVE };
const STOPPED: Situation = Situation { stopped_for_good: true, ..LIVE };

#[test]
fn regular_containers_make_the_phase() {
    let rows = [
        // Everything ran, one runs.
        ("Always", "rr", Phase::Running),
        ("Never", "r0", Phase::Running),
        ("Never", "r1", Phase::Running),
        ("Always", "rb", Phase::Running),
        // One never ran.
        ("Always", "ww", Phase::Pending),
        ("Always", "rw", Phase::Pending),
        ("Never", "0w", Phase::Pending),
        // One is not known.
        ("Always", "r-", Phase::Pending),
        ("Never", "0?", Phase::Pending),
        // All ended.
        ("Always", "00", Phase::Running),
        ("Always", "bb", Phase::Running),
        ("OnFailure", "00", Phase::Succeeded),
        ("OnFailure", "01", Phase::Running),
        ("Never", "00", Phase::Succeeded),
        ("Never", "01", Phase::Failed),
        // Who waits has not succeeded, whatever the last exit code.
        ("Never", "0s", Phase::Failed),
    ];
    for (policy, letters, expected) in rows {
        let pod = pod(policy, &["a", "b"]);
        assert_eq!(phase_of(&pod, ("", letters), LIVE), expected, "{policy} {letters}");
    }
    assert_eq!(phase_of(&pod("Always", &[]), ("", ""), LIVE), Phase::Pending);
}

#[test]
fn the_containers_own_policy_counts() {
    let own = |policy: &str| {
        let mut pod = pod("Always", &["a"]);
        pod.spec.as_mut().unwrap().containers[0].restart_policy = Some(policy.to_owned());
        pod
    };
    assert_eq!(phase_of(&own("Never"), ("", "1"), LIVE), Phase::Failed);
    assert_eq!(phase_of(&own("OnFailure"), ("", "0"), LIVE), Phase::Succeeded);
    assert_eq!(phase_of(&own("OnFailure"), ("", "1"), LIVE), Phase::Running);
}

#[test]
fn a_pod_that_was_stopped_for_good_is_over_whatever_its_policy_unless_it_is_static() {
    let of_manifest = |policy: &str| {
        let mut pod = pod(policy, &["a", "b"]);
        let source = ("kubernetes.io/config.source".to_owned(), "file".to_owned());
        pod.metadata.annotations = Some([source].into());
        pod
    };
    let rows = vec![
        (pod("Always", &["a", "b"]), "00", Phase::Succeeded),
        (pod("Always", &["a", "b"]), "01", Phase::Failed),
        (pod("Always", &["a", "b"]), "0b", Phase::Failed),
        (pod("Always", &["a", "b"]), "rr", Phase::Running),
        (pod("Always", &["a", "b"]), "0w", Phase::Pending),
        (of_manifest("Always"), "01", Phase::Running),
        (of_manifest("Never"), "00", Phase::Succeeded),
    ];
    for (pod, letters, expected) in rows {
        assert_eq!(phase_of(&pod, ("", letters), STOPPED), expected, "{letters}");
    }
}

#[test]
fn regular_init_containers_hold_up_a_pod_or_end_it() {
    let rows = [
        ("Always", ("-w", "w"), Phase::Pending),
        ("Always", ("rw", "w"), Phase::Pending),
        ("Always", ("0r", "w"), Phase::Pending),
        ("Always", ("00", "w"), Phase::Pending),
        ("Always", ("00", "r"), Phase::Running),
        ("Always", ("0r", "r"), Phase::Pending),
        ("Always", ("1w", "w"), Phase::Pending),
        ("Always", ("bw", "w"), Phase::Pending),
        ("OnFailure", ("1w", "w"), Phase::Pending),
        ("Never", ("1w", "w"), Phase::Failed),
        ("Never", ("bw", "w"), Phase::Failed),
        ("Never", ("00", "0"), Phase::Succeeded),
    ];
    for (policy, letters, expected) in rows {
        let pod = with_init(pod(policy, &["a"]), vec![container("x"), container("y")]);
        assert_eq!(phase_of(&pod, letters, LIVE), expected, "{policy} {letters:?}");
    }
}

// behaviour: WRK-37
#[test]
fn sidecars_hold_up_a_pod_until_it_was_initialized_and_then_say_nothing() {
    let rows = [
        ("Always", ("n", "w"), LIVE, Phase::Pending),
        ("Always", ("r", "w"), LIVE, Phase::Pending),
        ("Always", ("w", "w"), LIVE, Phase::Pending),
        ("Always", ("r", "r"), LIVE, Phase::Running),
        ("Always", ("n", "r"), LIVE, Phase::Pending),
        ("Always", ("n", "r"), INITIALIZED, Phase::Running),
        ("Always", ("b", "r"), INITIALIZED, Phase::Running),
        ("Always", ("w", "r"), INITIALIZED, Phase::Pending),
        ("Always", ("-", "r"), INITIALIZED, Phase::Pending),
        // They end after the regular ones, and how does not matter.
        ("Never", ("r", "0"), INITIALIZED, Phase::Running),
        ("Never", ("1", "0"), INITIALIZED, Phase::Succeeded),
        ("Never", ("b", "0"), INITIALIZED, Phase::Succeeded),
        ("Never", ("0", "1"), INITIALIZED, Phase::Failed),
        // One that never ran is not waited for when they have ended for good.
        ("Never", ("w", "0"), LIVE, Phase::Succeeded),
        ("Never", ("-", "1"), LIVE, Phase::Failed),
        ("Always", ("w", "0"), LIVE, Phase::Pending),
        ("OnFailure", ("w", "1"), LIVE, Phase::Pending),
    ];
    for (policy, letters, situation, expected) in rows {
        let pod = with_init(pod(policy, &["a"]), vec![sidecar("x")]);
        assert_eq!(phase_of(&pod, letters, situation), expected, "{policy} {letters:?}");
    }
}

fn told(phase: &str, reason: Option<&str>) -> PodStatus {
    PodStatus {
        phase: Some(phase.to_owned()),
        reason: reason.map(Into::into),
        start_time: Some(time(100)),
        ..PodStatus::default()
    }
}

fn shown(world: &World) -> (String, Option<String>) {
    let status = world.status();
    (status.phase.unwrap(), status.reason)
}

#[test]
fn a_terminal_phase_is_never_left_the_apis_before_the_one_told_before() {
    let rows = [
        (None, Some(told("Succeeded", None)), ("Succeeded", None)),
        (None, Some(told("Failed", Some("Evicted"))), ("Failed", Some("Evicted"))),
        (Some(told("Failed", Some("Evicted"))), None, ("Failed", Some("Evicted"))),
        (
            Some(told("Failed", Some("Evicted"))),
            Some(told("Running", None)),
            ("Failed", Some("Evicted")),
        ),
        (Some(told("Failed", None)), Some(told("Succeeded", None)), ("Failed", None)),
        (Some(told("Running", None)), Some(told("Succeeded", None)), ("Succeeded", None)),
    ];
    for (api, previous, (phase, reason)) in rows {
        for failure in [
            None,
            Some(PodFailure {
                reason: "DeadlineExceeded",
                message: String::new(),
                disruption: None,
            }),
        ] {
            let mut world = World::new(pod("Always", &["a"]), vec![instance("a-0", Running, 0)]);
            world.pod.status.clone_from(&api);
            world.previous.clone_from(&previous);
            world.failure = failure;
            assert_eq!(
                shown(&world),
                (phase.to_owned(), reason.map(Into::into)),
                "{api:?} {previous:?}"
            );
        }
    }
}

#[test]
fn a_reason_stays_as_long_as_its_phase() {
    let running = || vec![instance("a-0", Running, 0)];
    let rows = [
        (None, Some(told("Running", Some("Busy"))), Some("Busy")),
        (None, Some(told("Pending", Some("Busy"))), None),
        (Some(told("Running", Some("Api"))), Some(told("Running", Some("Busy"))), Some("Busy")),
        (Some(told("Running", Some("Api"))), Some(told("Running", None)), Some("Api")),
        (Some(told("Pending", Some("Api"))), Some(told("Running", None)), None),
    ];
    for (api, previous, reason) in rows {
        let mut world = World::new(pod("Always", &["a"]), running());
        world.pod.status.clone_from(&api);
        world.previous.clone_from(&previous);
        assert_eq!(shown(&world), ("Running".to_owned(), reason.map(Into::into)), "{api:?}");
    }
}

#[test]
fn a_pod_past_its_deadline_has_failed() {
    let mut world = World::new(pod("Always", &["a"]), vec![instance("a-0", Running, 0)])
        .with_previous(told("Running", None));
    assert_eq!(shown(&world), ("Running".to_owned(), None));
    let message = "it was active for too long".to_owned();
    world.failure = Some(PodFailure { reason: "DeadlineExceeded", message, disruption: None });
    assert_eq!(shown(&world), ("Failed".to_owned(), Some("DeadlineExceeded".to_owned())));
}

#[test]
fn one_in_back_off_beside_one_that_runs_is_running_and_one_never_started_is_pending() {
    let a = || instance("a-0", Running, 0);
    let backing_off = World::new(pod("Always", &["a", "b"]), vec![a(), instance("b-0", Exited, 1)])
        .with_start_failure("b", "CrashLoopBackOff");
    assert_eq!(shown(&backing_off).0, "Running");
    let never_started =
        World::new(pod("Always", &["a", "b"]), vec![a()]).with_start_failure("b", "ErrImagePull");
    assert_eq!(shown(&never_started).0, "Pending");
}

#[test]
fn the_end_of_a_pod_is_held_back_while_its_containers_may_run() {
    let rows = [
        (Some("Running"), "Failed", true, ("Running", Some("Before"))),
        (Some("Running"), "Failed", false, ("Failed", Some("Now"))),
        (Some("Running"), "Pending", true, ("Pending", Some("Now"))),
        (Some("Failed"), "Failed", true, ("Failed", Some("Now"))),
        (None, "Succeeded", true, ("Pending", None)),
    ];
    for (published, computed, may_run, (phase, reason)) in rows {
        let published = published.map(|phase| told(phase, Some("Before")));
        let shown = held_back(published.as_ref(), told(computed, Some("Now")), may_run);
        assert_eq!(shown.phase.as_deref(), Some(phase), "{published:?} {computed} {may_run}");
        assert_eq!(shown.reason.as_deref(), reason, "{published:?} {computed} {may_run}");
    }
}

// behaviour: ACT-44
#[test]
fn a_pod_is_not_over_when_what_replaces_its_container_is_made_and_not_started() {
    let never = pod("Never", &["main"]);
    let made = vec![instance("main-1", Created, 0), instance("main-0", Exited, 143)];
    assert_eq!(World::new(never.clone(), made).status().phase.as_deref(), Some("Running"));
    let gone = vec![instance("main-0", Exited, 143)];
    assert_eq!(World::new(never, gone).status().phase.as_deref(), Some("Failed"));
}
