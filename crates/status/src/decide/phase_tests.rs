//! Tests of phases.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodStatus};
use model::observed::ContainerState::{Created, Exited, Running};
use model::pod_failure::PodFailure;

use crate::decide::container_statuses::Containers;
use crate::decide::phase::{Phase, PhaseContext, held_back, phase};
use crate::decide::test_pods::{
    Harness, container, ended, instance, pod, running, sidecar, status, time, waiting, with_init,
};

/// `r` runs, `0` and `1` terminated with this code, `w` never ran, `b` failed and waits, `s` succeeded and waits, `-`
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
fn phase_of(pod: &Pod, letters: (&str, &str), context: PhaseContext) -> Phase {
    let spec = pod.spec.as_ref().unwrap();
    let containers = Containers {
        init: statuses(spec.init_containers.as_deref().unwrap_or_default(), letters.0),
        regular: statuses(&spec.containers, letters.1),
        ephemeral: vec![],
    };
    phase(pod, &containers, context)
}

const LIVE: PhaseContext = PhaseContext { stopped_for_good: false, initialized: false };
const INITIALIZED: PhaseContext = PhaseContext { initialized: true, ..LIVE };
const STOPPED: PhaseContext = PhaseContext { stopped_for_good: true, ..LIVE };

#[test]
fn regular_containers_determine_the_phase() {
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
        // A waiting container has not succeeded, regardless of its last exit code.
        ("Never", "0s", Phase::Failed),
    ];
    for (policy, letters, expected) in rows {
        let pod = pod(policy, &["a", "b"]);
        assert_eq!(phase_of(&pod, ("", letters), LIVE), expected, "{policy} {letters}");
    }
    assert_eq!(phase_of(&pod("Always", &[]), ("", ""), LIVE), Phase::Pending);
}

#[test]
fn container_restart_policy_takes_precedence() {
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
fn stopped_pod_is_terminal_unless_static() {
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
fn init_containers_block_or_fail_a_pod() {
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
fn sidecars_block_a_pod_until_initialized() {
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
        // They terminate after the regular ones, with any exit code.
        ("Never", ("r", "0"), INITIALIZED, Phase::Running),
        ("Never", ("1", "0"), INITIALIZED, Phase::Succeeded),
        ("Never", ("b", "0"), INITIALIZED, Phase::Succeeded),
        ("Never", ("0", "1"), INITIALIZED, Phase::Failed),
        // A sidecar that never ran is ignored when the regular ones have terminated for good.
        ("Never", ("w", "0"), LIVE, Phase::Succeeded),
        ("Never", ("-", "1"), LIVE, Phase::Failed),
        ("Always", ("w", "0"), LIVE, Phase::Pending),
        ("OnFailure", ("w", "1"), LIVE, Phase::Pending),
    ];
    for (policy, letters, context, expected) in rows {
        let pod = with_init(pod(policy, &["a"]), vec![sidecar("x")]);
        assert_eq!(phase_of(&pod, letters, context), expected, "{policy} {letters:?}");
    }
}

fn with_phase(phase: &str, reason: Option<&str>) -> PodStatus {
    PodStatus {
        phase: Some(phase.to_owned()),
        reason: reason.map(Into::into),
        start_time: Some(time(100)),
        ..PodStatus::default()
    }
}

fn shown(harness: &Harness) -> (String, Option<String>) {
    let status = harness.status();
    (status.phase.unwrap(), status.reason)
}

#[test]
fn terminal_phase_is_never_left_and_the_api_takes_precedence() {
    let rows = [
        (None, Some(with_phase("Succeeded", None)), ("Succeeded", None)),
        (None, Some(with_phase("Failed", Some("Evicted"))), ("Failed", Some("Evicted"))),
        (Some(with_phase("Failed", Some("Evicted"))), None, ("Failed", Some("Evicted"))),
        (
            Some(with_phase("Failed", Some("Evicted"))),
            Some(with_phase("Running", None)),
            ("Failed", Some("Evicted")),
        ),
        (Some(with_phase("Failed", None)), Some(with_phase("Succeeded", None)), ("Failed", None)),
        (
            Some(with_phase("Running", None)),
            Some(with_phase("Succeeded", None)),
            ("Succeeded", None),
        ),
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
            let mut harness =
                Harness::new(pod("Always", &["a"]), vec![instance("a-0", Running, 0)]);
            harness.pod.status.clone_from(&api);
            harness.previous.clone_from(&previous);
            harness.failure = failure;
            assert_eq!(
                shown(&harness),
                (phase.to_owned(), reason.map(Into::into)),
                "{api:?} {previous:?}"
            );
        }
    }
}

#[test]
fn reason_is_kept_with_its_phase() {
    let running = || vec![instance("a-0", Running, 0)];
    let rows = [
        (None, Some(with_phase("Running", Some("Busy"))), Some("Busy")),
        (None, Some(with_phase("Pending", Some("Busy"))), None),
        (
            Some(with_phase("Running", Some("Api"))),
            Some(with_phase("Running", Some("Busy"))),
            Some("Busy"),
        ),
        (Some(with_phase("Running", Some("Api"))), Some(with_phase("Running", None)), Some("Api")),
        (Some(with_phase("Pending", Some("Api"))), Some(with_phase("Running", None)), None),
    ];
    for (api, previous, reason) in rows {
        let mut harness = Harness::new(pod("Always", &["a"]), running());
        harness.pod.status.clone_from(&api);
        harness.previous.clone_from(&previous);
        assert_eq!(shown(&harness), ("Running".to_owned(), reason.map(Into::into)), "{api:?}");
    }
}

#[test]
fn pod_past_its_deadline_has_failed() {
    let mut harness = Harness::new(pod("Always", &["a"]), vec![instance("a-0", Running, 0)])
        .with_previous(with_phase("Running", None));
    assert_eq!(shown(&harness), ("Running".to_owned(), None));
    let message = "it was active for too long".to_owned();
    harness.failure = Some(PodFailure { reason: "DeadlineExceeded", message, disruption: None });
    assert_eq!(shown(&harness), ("Failed".to_owned(), Some("DeadlineExceeded".to_owned())));
}

#[test]
fn back_off_is_running_and_never_started_is_pending() {
    let a = || instance("a-0", Running, 0);
    let backing_off =
        Harness::new(pod("Always", &["a", "b"]), vec![a(), instance("b-0", Exited, 1)])
            .with_start_failure("b", "CrashLoopBackOff");
    assert_eq!(shown(&backing_off).0, "Running");
    let never_started =
        Harness::new(pod("Always", &["a", "b"]), vec![a()]).with_start_failure("b", "ErrImagePull");
    assert_eq!(shown(&never_started).0, "Pending");
}

#[test]
fn terminal_phase_is_held_back_while_containers_may_run() {
    let rows = [
        (Some("Running"), "Failed", true, ("Running", Some("Before"))),
        (Some("Running"), "Failed", false, ("Failed", Some("Now"))),
        (Some("Running"), "Pending", true, ("Pending", Some("Now"))),
        (Some("Failed"), "Failed", true, ("Failed", Some("Now"))),
        (None, "Succeeded", true, ("Pending", None)),
    ];
    for (published, computed, may_run, (phase, reason)) in rows {
        let published = published.map(|phase| with_phase(phase, Some("Before")));
        let shown = held_back(published.as_ref(), with_phase(computed, Some("Now")), may_run);
        assert_eq!(shown.phase.as_deref(), Some(phase), "{published:?} {computed} {may_run}");
        assert_eq!(shown.reason.as_deref(), reason, "{published:?} {computed} {may_run}");
    }
}

// behaviour: ACT-44
#[test]
fn pod_is_not_terminal_while_a_replacement_is_created_and_not_started() {
    let never = pod("Never", &["main"]);
    let made = vec![instance("main-1", Created, 0), instance("main-0", Exited, 143)];
    assert_eq!(Harness::new(never.clone(), made).status().phase.as_deref(), Some("Running"));
    let gone = vec![instance("main-0", Exited, 143)];
    assert_eq!(Harness::new(never, gone).status().phase.as_deref(), Some("Failed"));
}
