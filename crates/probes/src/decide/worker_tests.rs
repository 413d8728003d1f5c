use proptest::prelude::*;

use super::*;

const NOW: i64 = 1_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn start(resets: bool) -> AgentStart {
    AgentStart { at: at(500), resets }
}

fn timing(success_threshold: u32, failure_threshold: u32) -> Timing {
    Timing {
        initial_delay: Duration::from_secs(5),
        period: Duration::from_secs(10),
        startup_period: None,
        timeout: Duration::from_secs(1),
        success_threshold,
        failure_threshold,
    }
}

fn view(id: &str, since: Option<i64>, started: bool) -> ContainerView {
    ContainerView { id: Some(id.into()), running_since: since.map(at), started, ready: false }
}

/// A worker that observed the instance `a`, which runs for a while.
fn armed(kind: ProbeKind, timing: Timing) -> Worker {
    let mut worker = Worker::new(kind, timing);
    let view = view("a", Some(900), kind != ProbeKind::Startup);
    worker.observe(&view, |_| None, start(false), at(NOW));
    worker
}

fn record(worker: &mut Worker, passes: bool, second: u64) -> bool {
    worker.record(&"a".into(), passes, "output", Duration::from_secs(second))
}

#[test]
fn probe_runs_after_the_initial_delay_while_its_gate_is_open() {
    use ProbeKind::{Liveness, Readiness, Startup};
    let delay = |seconds| Some(Duration::from_secs(seconds));
    let rows = [
        ("no instance", Liveness, ContainerView::default(), None),
        ("not running", Liveness, view("a", None, false), None),
        ("old enough", Liveness, view("a", Some(900), true), delay(0)),
        ("two seconds old", Liveness, view("a", Some(998), true), delay(3)),
        ("started in the future", Readiness, view("a", Some(2_000), true), delay(5)),
        ("not started", Liveness, view("a", Some(900), false), None),
        ("not started", Readiness, view("a", Some(900), false), None),
        ("not started", Startup, view("a", Some(900), false), delay(0)),
        ("started", Startup, view("a", Some(900), true), None),
    ];
    for (name, kind, view, expected) in rows {
        let mut worker = Worker::new(kind, timing(1, 3));
        let next = worker.observe(&view, |_| None, start(false), at(NOW));
        assert_eq!(next, expected, "{name} {kind}");
    }
}

// behaviour: PRB-7
#[test]
fn first_result_is_that_of_the_published_status() {
    use ProbeKind::{Liveness, Readiness, Startup};
    // Columns: kind, `started` and `ready` in the status, result, and whether the probe is on hold.
    let rows = [
        (Readiness, true, false, Some(false), false),
        (Readiness, true, true, Some(true), false),
        (Liveness, true, false, Some(true), false),
        (Startup, false, false, None, false),
        (Startup, true, false, Some(true), true),
    ];
    for (kind, started, ready, result, on_hold) in rows {
        for since in [100, 900] {
            let mut worker = Worker::new(kind, timing(1, 3));
            let view = ContainerView { ready, ..view("a", Some(since), started) };
            worker.observe(&view, |_| None, start(false), at(NOW));
            let counted = worker.counted();
            let shown = (counted.result, counted.on_hold);
            assert_eq!(shown, (result, on_hold), "{kind} {started} {ready} {since}");
            assert_eq!(worker.kill(), None);
        }
    }
}

#[test]
fn container_that_started_within_the_second_of_the_agent_is_a_new_one() {
    let start = AgentStart { at: "1970-01-01T00:08:20.7Z".parse().unwrap(), resets: false };
    for (since, expected) in [(499, true), (500, false), (501, false)] {
        assert_eq!(ran_before(&view("a", Some(since), true), start), expected, "{since}");
    }
    assert!(!ran_before(&ContainerView::default(), start));
}

// behaviour: PRB-5
#[test]
fn result_changes_after_as_many_equal_verdicts_as_the_threshold() {
    let mut readiness = armed(ProbeKind::Readiness, timing(2, 3));
    // Verdict, whether the result changes, the result.
    let rows = [
        (true, false, Some(false)),
        (false, false, Some(false)),
        (true, false, Some(false)),
        (true, true, Some(true)),
        (true, false, Some(true)),
        (false, false, Some(true)),
        (false, false, Some(true)),
        (true, false, Some(true)),
        (false, false, Some(true)),
        (false, false, Some(true)),
        (false, true, Some(false)),
    ];
    for (step, (verdict, changed, result)) in rows.into_iter().enumerate() {
        assert_eq!(record(&mut readiness, verdict, 0), changed, "{step}");
        assert_eq!(readiness.counted().result, result, "{step}");
        assert!(!readiness.counted().on_hold, "readiness continues");
    }
}

#[test]
fn liveness_failure_holds_until_there_is_a_new_instance() {
    let mut liveness = armed(ProbeKind::Liveness, timing(1, 2));
    assert!(!record(&mut liveness, false, 0));
    assert_eq!(liveness.kill(), None);
    assert!(record(&mut liveness, false, 0));
    let kill = liveness.kill().unwrap();
    assert_eq!((kill.failures, kill.threshold, kill.output.as_str()), (2, 2, "output"));
    let same = view("a", Some(900), true);
    assert_eq!(liveness.observe(&same, |_| None, start(false), at(NOW)), None);
    assert!(!record(&mut liveness, true, 0), "verdicts do not count on hold");
    let next = view("b", Some(999), true);
    let wait = liveness.observe(&next, |_| None, start(false), at(NOW));
    assert_eq!(wait, Some(Duration::from_secs(4)));
    assert_eq!((liveness.kill(), liveness.counted().result), (None, Some(true)));
    assert!(!record(&mut liveness, false, 0), "an attempt for the earlier instance does not count");
    assert_eq!(liveness.counted().run, 0);
}

// behaviour: PRB-6
#[test]
fn startup_probe_stops_after_any_result() {
    let mut passes = armed(ProbeKind::Startup, timing(1, 2));
    assert!(record(&mut passes, true, 0));
    assert!(passes.counted().on_hold);
    assert_eq!(passes.kill(), None);
    let mut fails = armed(ProbeKind::Startup, timing(1, 2));
    assert!(!record(&mut fails, false, 0));
    assert!(record(&mut fails, false, 0));
    assert_eq!(fails.kill().map(|kill| kill.kind), Some(ProbeKind::Startup));
}

#[test]
fn saved_state_of_the_instance_is_continued() {
    let mut before = armed(ProbeKind::Readiness, timing(1, 3));
    record(&mut before, true, 0);
    record(&mut before, false, 0);
    let saved = before.counted().clone();
    let mut after = Worker::new(ProbeKind::Readiness, timing(1, 3));
    let same = ContainerView { ready: true, ..view("a", Some(100), true) };
    after.observe(&same, |_| Some(saved.clone()), start(false), at(NOW));
    assert_eq!(after.counted(), &saved);
    assert!(!record(&mut after, false, 0));
    assert!(record(&mut after, false, 0), "the third failure in a row");
}

/// The saved state of an earlier agent may be older than the status that it published.
#[test]
fn published_status_is_newer_than_what_was_saved() {
    let saved = |result| ProbeCount { result, ..ProbeCount::default() };
    let mut readiness = Worker::new(ProbeKind::Readiness, timing(1, 3));
    let same = ContainerView { ready: true, ..view("a", Some(100), true) };
    readiness.observe(&same, |_| Some(saved(Some(false))), start(false), at(NOW));
    assert_eq!(readiness.counted().result, Some(true));
    let mut startup = Worker::new(ProbeKind::Startup, timing(1, 3));
    startup.observe(&same, |_| Some(saved(None)), start(false), at(NOW));
    assert_eq!((startup.counted().result, startup.counted().on_hold), (Some(true), true));
    let mut reset = Worker::new(ProbeKind::Readiness, timing(1, 3));
    let unready = view("a", Some(100), true);
    reset.observe(&unready, |_| Some(saved(Some(true))), start(true), at(NOW));
    assert_eq!(reset.counted(), &saved(Some(false)), "with the feature gate nothing is kept");
}

// behaviour: PRB-16
#[test]
fn shortened_period_lasts_until_the_first_success_and_counts_failures_by_the_period() {
    let startup_period = Some(Duration::from_millis(200));
    let initial_delay = Duration::ZERO;
    let short = Timing { initial_delay, startup_period, ..timing(1, 2) };
    let mut startup = armed(ProbeKind::Startup, short);
    assert_eq!(startup.period(), Duration::from_millis(200));
    // A failure counts when the period of 10 s is over.
    let rows = [
        (0, false, 0),
        (1, false, 0),
        (9, false, 0),
        (10, false, 1),
        (19, false, 1),
        (20, true, 0),
    ];
    for (second, changed, run) in rows {
        assert_eq!(record(&mut startup, false, second), changed, "{second}");
        assert_eq!(startup.counted().run, run, "{second}");
    }
    let mut readiness = armed(ProbeKind::Readiness, short);
    assert!(record(&mut readiness, true, 0));
    assert_eq!(readiness.period(), Duration::from_secs(10));
    assert!(!record(&mut readiness, false, 1));
    assert!(record(&mut readiness, false, 2), "failures count again at once");
    assert_eq!(readiness.period(), Duration::from_secs(10));
    let liveness = armed(ProbeKind::Liveness, short);
    assert_eq!(liveness.period(), Duration::from_secs(10));
}

#[test]
fn only_readiness_without_success_is_triggered() {
    let mut readiness = armed(ProbeKind::Readiness, timing(1, 1));
    assert!(readiness.wants_trigger());
    record(&mut readiness, true, 0);
    assert!(!readiness.wants_trigger());
    assert!(!armed(ProbeKind::Liveness, timing(1, 1)).wants_trigger());
}

// behaviour: PRB-9, PRB-10
#[test]
fn first_attempt_of_each_kind_kills_no_sooner_than_upstream() {
    let initial_delay = Duration::ZERO;
    let timing = Timing { initial_delay, ..timing(1, 1) };
    let rows = [(ProbeKind::Liveness, 10), (ProbeKind::Readiness, 0), (ProbeKind::Startup, 0)];
    for (kind, seconds) in rows {
        let mut worker = Worker::new(kind, timing);
        let view = view("a", Some(NOW), kind != ProbeKind::Startup);
        let wait = worker.observe(&view, |_| None, start(false), at(NOW));
        assert_eq!(wait, Some(Duration::from_secs(seconds)), "{kind}");
    }
    let mut startup = armed(ProbeKind::Startup, timing);
    assert!(!record(&mut startup, false, 0), "the first failure comes before the period is over");
    assert!(record(&mut startup, false, 10));
    let mut passes = armed(ProbeKind::Startup, timing);
    assert!(record(&mut passes, true, 0), "a success counts at once");
}

proptest! {
    /// The result is the verdict of the last run of equal verdicts that reached its threshold.
    #[test]
    fn result_follows_the_last_run_that_reached_the_threshold(
        verdicts in prop::collection::vec(any::<bool>(), 0..60),
        success in 1u32..4,
        failure in 1u32..4,
    ) {
        let mut worker = armed(ProbeKind::Readiness, timing(success, failure));
        let (mut expected, mut run, mut last) = (Some(false), 0, None);
        for verdict in verdicts {
            run = if last == Some(verdict) { run + 1 } else { 1 };
            last = Some(verdict);
            if run >= if verdict { success } else { failure } {
                expected = Some(verdict);
            }
            let before = worker.counted().result;
            let changed = record(&mut worker, verdict, 0);
            prop_assert_eq!(worker.counted().result, expected);
            prop_assert_eq!(changed, before != expected);
        }
    }

    /// A container is killed only after as many failures in a row as the threshold.
    #[test]
    fn kill_needs_the_threshold(
        verdicts in prop::collection::vec(any::<bool>(), 0..40),
        threshold in 1u32..5,
    ) {
        let mut worker = armed(ProbeKind::Liveness, timing(1, threshold));
        let mut failures = 0;
        for verdict in verdicts {
            failures = if verdict { 0 } else { failures + 1 };
            record(&mut worker, verdict, 0);
            prop_assert_eq!(worker.kill().is_some(), failures >= threshold);
            if failures >= threshold {
                return Ok(());
            }
        }
    }
}
