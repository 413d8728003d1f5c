//! Entries as lines.

use super::*;

fn entry(kind: &str, rule: &str, outcome: EntryOutcome, detail: &str) -> Entry {
    Entry {
        time: "2026-11-18T12:03:05Z".parse().unwrap(),
        kind: kind.to_owned(),
        id: "0123456789abcdef0123".to_owned(),
        name: if kind == "rejection" { String::new() } else { "web".to_owned() },
        pod: Some("shop/front".to_owned()),
        pod_uid: Some("u1".to_owned()),
        rule: rule.to_owned(),
        detail: serde_json::from_str(detail).unwrap(),
        outcome,
        error: None,
        version: "0.1.0".to_owned(),
    }
}

fn now() -> Timestamp {
    "2026-11-18T23:00:00Z".parse().unwrap()
}

/// Checks the line of an entry; an expected text that ends in a colon and a space is a prefix.
fn assert_line(entry: Entry, expected: &str) {
    let lines = facts(&[entry], now());
    let expected = format!("12:03:05 {expected}");
    assert_eq!(lines.len(), 1);
    let goes_on = expected.ends_with(": ") && lines[0].starts_with(&expected);
    assert!(lines[0] == expected || goes_on, "{lines:?} is not {expected:?}");
}

// behaviour: WHY-11
#[test]
fn kill_is_one_line_in_plain_words() {
    let probe = r#"{"failures":3,"threshold":3,"period":"10s","output":"HTTP probe failed with statuscode: 500","gracePeriod":"30s"}"#;
    let rows = [
        (
            "liveness-probe",
            probe,
            "liveness probe failed 3 times in a row (threshold 3, every 10s): \
             HTTP probe failed with statuscode: 500; grace 30s",
        ),
        (
            "startup-probe",
            r#"{"failures":1,"threshold":1,"period":"5s"}"#,
            "startup probe failed (threshold 1, every 5s)",
        ),
        ("pod-deleted", r#"{"gracePeriod":"1s"}"#, "the pod was deleted; grace 1s"),
        ("rule-of-tomorrow", r#"{"cap":1}"#, "rule-of-tomorrow (cap 1)"),
    ];
    for (rule, detail, expected) in rows {
        let expected = format!("container web killed: {expected}");
        assert_line(entry("kill", rule, EntryOutcome::Killed, detail), &expected);
    }
    for (detail, expected) in [
        (r#"{"memoryLimit":67108864,"exitCode":137}"#, "out of memory (limit 64Mi)"),
        ("{}", "out of memory"),
    ] {
        let expected = format!("container web killed by the kernel: {expected}");
        assert_line(entry("oom", "out-of-memory", EntryOutcome::Killed, detail), &expected);
    }
}

// behaviour: WHY-11
#[test]
fn restart_is_one_line_in_plain_words() {
    let rows = [
        (
            "exit",
            r#"{"exitCode":1,"reason":"Error","restartCount":4,"backOff":"40s"}"#,
            "exit code 1, restart 4, after a back-off of 40s",
        ),
        (
            "exit",
            r#"{"exitCode":137,"signal":9,"reason":"OOMKilled","restartCount":1}"#,
            "exit code 137 (signal 9, OOMKilled), restart 1",
        ),
        ("liveness-probe", r#"{"restartCount":1}"#, "its liveness probe failed, restart 1"),
        (
            "liveness-probe",
            r#"{"exitCode":143,"signal":15,"restartCount":3,"backOff":"10s"}"#,
            "its liveness probe failed, exit code 143 (signal 15), restart 3, after a back-off of 10s",
        ),
        (
            "sandbox-changed",
            r#"{"restartCount":2}"#,
            "the sandbox of the pod cannot be used any more, restart 2",
        ),
    ];
    for (rule, detail, expected) in rows {
        let expected = format!("container web restarted: {expected}");
        assert_line(entry("restart", rule, EntryOutcome::Restarted, detail), &expected);
    }
}

// behaviour: WHY-11
#[test]
fn rejection_removal_and_session_are_one_line_each() {
    let message = r#"{"message":"Node didn't have enough cpu"}"#;
    let rejected = entry("rejection", "OutOfcpu", EntryOutcome::Rejected, message);
    assert_line(rejected, "pod rejected: OutOfcpu: Node didn't have enough cpu");
    let removed = entry("container", "pod-is-gone", EntryOutcome::Removed, "{}");
    assert_line(removed, "container web (0123456789abc) removed: ");
    let session = r#"{"user":"alice","program":"sh"}"#;
    let refused = entry("exec", "session", EntryOutcome::Refused, session);
    assert_line(refused, "alice was refused exec to container web: program sh");
}

// behaviour: PULL-14
#[test]
fn pull_is_one_line_in_plain_words() {
    let rows = [
        (
            "image-absent",
            r#"{"container":"main","credential":"secret shop/key","took":"2s","size":20000000}"#,
            "it was not present; with secret shop/key, ",
        ),
        (
            "pull-policy-always",
            r#"{"container":"main","credential":"none","took":"1.5s"}"#,
            "the pull policy is Always; without credentials, in 1.5s",
        ),
        (
            "access-unproven",
            r#"{"container":"main","credential":"node","took":"1s"}"#,
            "it was present, and the pod had to prove its access; with credentials of the node, in 1s",
        ),
    ];
    for (rule, detail, expected) in rows {
        let line = facts(&[entry("pull", rule, EntryOutcome::Pulled, detail)], now()).remove(0);
        let expected =
            format!("12:03:05 image web (0123456789abc) pulled for container main: {expected}");
        assert!(line.starts_with(&expected), "{line:?} is not {expected:?}");
        assert!(line.ends_with('s'), "{line:?}");
    }
}

#[test]
fn pods_are_named_where_the_lines_are_about_several() {
    let killed = entry("kill", "pod-deleted", EntryOutcome::Killed, "{}");
    let time = "2026-11-17T12:03:05Z".parse().unwrap();
    let rejected = entry("rejection", "OutOfcpu", EntryOutcome::Rejected, r#"{"message":"x"}"#);
    let rejected = Entry { pod: Some("shop/back".to_owned()), time, ..rejected };
    let lines = facts(&[killed, rejected], now());
    assert_eq!(
        lines,
        [
            "12:03:05 container web of pod shop/front killed: the pod was deleted",
            "2026-11-17 12:03:05 pod shop/back rejected: OutOfcpu: x",
        ]
    );
}

#[test]
fn container_output_cannot_move_the_cursor() {
    let detail = r#"{"failures":1,"threshold":1,"period":"5s","output":"a\u001b[2Jb"}"#;
    let lines = facts(&[entry("kill", "liveness-probe", EntryOutcome::Killed, detail)], now());
    assert!(lines[0].ends_with(": a [2Jb"), "{lines:?}");
}

#[test]
fn memory_is_printed_in_pod_notation() {
    let rows = [(0, "0"), (1000, "1000"), (1024, "1Ki"), (64 << 20, "64Mi"), (2 << 30, "2Gi")];
    for (bytes, expected) in rows {
        assert_eq!(quantity(bytes), expected);
    }
}
