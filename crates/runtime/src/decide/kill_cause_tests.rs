//! Texts and numbers of kills and restarts.

use model::observed::ContainerState;

use super::super::test_pods::instance;
use super::*;

fn failure(kind: ProbeKind, failures: u32, output: &str) -> ProbeFailure {
    let period = Duration::from_secs(10);
    ProbeFailure { kind, failures, threshold: failures, period, output: output.to_owned() }
}

fn kill(why: KillReason, probe: Option<ProbeFailure>) -> ContainerKill {
    ContainerKill { id: "c1".into(), name: "web".to_owned(), why, restarts: true, probe }
}

// behaviour: WHY-4, WHY-5
#[test]
fn kill_by_a_probe_reports_probe_failure_count_and_output() {
    let status_code = "HTTP probe failed with statuscode: 500";
    let rows = [
        (
            KillReason::LivenessProbe,
            failure(ProbeKind::Liveness, 3, status_code),
            "Container web failed liveness probe, will be restarted: \
             3 failures in a row, 10s apart: HTTP probe failed with statuscode: 500",
            "failed liveness probe: 3 failures in a row: HTTP probe failed with statuscode: 500",
        ),
        (
            KillReason::StartupProbe,
            failure(ProbeKind::Startup, 1, "cat: /ready:\n\tNo such file\n"),
            "Container web failed startup probe, will be restarted: \
             1 failure: cat: /ready: No such file",
            "failed startup probe: 1 failure: cat: /ready: No such file",
        ),
        (
            KillReason::LivenessProbe,
            failure(ProbeKind::Liveness, 2, ""),
            "Container web failed liveness probe, will be restarted: 2 failures in a row, 10s apart",
            "failed liveness probe: 2 failures in a row",
        ),
    ];
    for (why, probe, event, status) in rows {
        let kill = kill(why, Some(probe));
        assert_eq!(kill.message(false), event);
        assert_eq!(kill.end_message().as_deref(), Some(status));
    }
    let sidecar =
        kill(KillReason::LivenessProbe, Some(failure(ProbeKind::Liveness, 3, status_code)));
    assert_eq!(
        sidecar.message(true),
        "Init container web failed liveness probe: 3 failures in a row, 10s apart: \
         HTTP probe failed with statuscode: 500"
    );
}

// behaviour: WHY-5
#[test]
fn kills_for_a_change_or_resize_have_a_status_message() {
    let rows = [
        (KillReason::Changed, Some("container definition changed")),
        (KillReason::Resized, Some("resize requires restart")),
        (KillReason::UnknownState, None),
        (KillReason::Superseded, None),
    ];
    for (why, expected) in rows {
        assert_eq!(kill(why, None).end_message().as_deref(), expected, "{why:?}");
    }
    let changed = kill(KillReason::Changed, None).message(false);
    assert_eq!(changed, "Container web definition changed, will be restarted");
}

// behaviour: WHY-6
#[test]
fn output_of_a_probe_is_one_short_line_without_the_body_of_a_response() {
    let long = format!("{}ä", "x".repeat(300));
    let wide = "ä".repeat(200);
    let rows = [
        ("  a \n b\r\n", "a b".to_owned()),
        ("\u{1b}[31mred", "[31mred".to_owned()),
        ("HTTP probe failed with statuscode: 503, body: secret", format!("{STATUS_CODE} 503")),
        (&long, format!("{}...", "x".repeat(253))),
        (&wide, format!("{}...", "ä".repeat(126))),
        (" \n", String::new()),
    ];
    for (output, expected) in rows {
        assert_eq!(shown_output(output), expected);
    }
}

#[test]
fn kill_is_recorded_with_its_rule_and_numbers() {
    let cause =
        kill(KillReason::LivenessProbe, Some(failure(ProbeKind::Liveness, 3, "no"))).cause();
    assert_eq!(cause.rule, "liveness-probe");
    assert_eq!(
        cause.detail_with(Duration::from_secs(30)).to_string(),
        "failures 3, threshold 3, period 10s, output no, gracePeriod 30s"
    );
    let changed = kill(KillReason::Changed, None).cause();
    assert_eq!((changed.rule, changed.detail), ("definition-changed", Detail::default()));
}

// behaviour: WHY-7
#[test]
fn restart_is_recorded_with_the_exit_and_the_back_off() {
    let failed = instance("c1", "web", ContainerState::Exited, 1);
    let killed = ContainerStatus { reason: "OOMKilled".into(), ..failed.clone() };
    let killed = ContainerStatus { exit_code: 137, ..killed };
    let failed = ContainerStatus { reason: "".into(), ..failed };
    let waited = Some(Duration::from_secs(40));
    let ended = |exit_code| StartReason::Ended { exit_code };
    let liveness = StartReason::Killed(KillReason::LivenessProbe);
    let rows = [
        (
            ended(1),
            Some(&failed),
            4,
            waited,
            Some(("exit", "exitCode 1, restartCount 4, backOff 40s")),
        ),
        (
            ended(137),
            Some(&killed),
            1,
            None,
            Some(("exit", "exitCode 137, signal 9, reason OOMKilled, restartCount 1")),
        ),
        (
            StartReason::NeverStarted,
            Some(&failed),
            2,
            None,
            Some(("exit", "exitCode 1, restartCount 2")),
        ),
        (liveness, None, 1, None, Some(("liveness-probe", "restartCount 1"))),
        (
            StartReason::NewSandbox,
            Some(&failed),
            1,
            None,
            Some(("sandbox-changed", "restartCount 1")),
        ),
        (StartReason::New, None, 3, None, Some(("no-instance", "restartCount 3"))),
        (StartReason::New, None, 0, None, None),
        (StartReason::NeverStarted, None, 0, None, None),
    ];
    for (why, ended, count, waited, expected) in rows {
        let cause = Restart { why, ended, killed: None, count, waited }.cause();
        let cause = cause.map(|(rule, detail)| (rule, detail.to_string()));
        assert_eq!(cause, expected.map(|(rule, text)| (rule, text.to_owned())), "{why:?}");
    }
}

// behaviour: WHY-7
#[test]
fn restart_after_a_back_off_has_the_rule_of_the_kill() {
    let ended = instance("c1", "web", ContainerState::Exited, 143);
    let restart = Restart {
        why: StartReason::Ended { exit_code: 143 },
        ended: Some(&ended),
        killed: Some("liveness-probe"),
        count: 3,
        waited: Some(Duration::from_secs(10)),
    };
    let (rule, detail) = restart.cause().expect("a restart");
    let numbers = "exitCode 143, signal 15, restartCount 3, backOff 10s";
    assert_eq!((rule, detail.to_string()), ("liveness-probe", numbers.to_owned()));
}
