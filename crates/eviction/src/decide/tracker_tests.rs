//! Tables for rounds.

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::decide::threshold::Level;

const TRANSITION: Duration = Duration::from_mins(5);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn hard(signal: Signal, amount: &str) -> Threshold {
    let level = Level::Amount(amount.parse().unwrap());
    Threshold { signal, level, grace: Duration::ZERO, minimum_reclaim: None }
}

/// What is available of each signal, measured at a second.
fn seen(second: i64, available: &[(Signal, i64)]) -> Observations {
    let at = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second);
    let observed = |available| Observed { available, capacity: 1000, at };
    available.iter().map(|(signal, amount)| (*signal, observed(*amount))).collect()
}

fn active(round: &Round) -> Vec<Signal> {
    round.active.iter().map(|crossed| crossed.threshold.signal).collect()
}

const MEMORY: Signal = Signal::MemoryAvailable;
const DISK: Signal = Signal::NodeFsAvailable;

// behaviour: EVI-6
#[test]
fn hard_threshold_requires_action_at_once() {
    let mut tracker = Tracker::new(vec![hard(DISK, "100")], TRANSITION);
    assert_eq!(active(&tracker.round(seen(0, &[(DISK, 100)]), seconds(0))), []);
    let round = tracker.round(seen(10, &[(DISK, 99)]), seconds(10));
    assert_eq!(active(&round), [DISK]);
    let crossed = &round.active[0];
    let texts = [crossed.quantity().to_string(), crossed.available().to_string()];
    assert_eq!(texts, ["100", "99"]);
    assert_eq!(crossed.resource(), Resource::EphemeralStorage);
}

// behaviour: EVI-13
#[test]
fn soft_threshold_requires_action_after_its_grace_period() {
    let soft = Threshold { grace: seconds(30), ..hard(DISK, "100") };
    let mut tracker = Tracker::new(vec![soft], TRANSITION);
    let rows = [
        (0, 50, false),
        (20, 50, false),
        // Not met in between: the grace period begins again.
        (25, 100, false),
        (30, 50, false),
        (59, 50, false),
        (60, 50, true),
        (70, 50, true),
    ];
    for (second, available, expected) in rows {
        let observations = seen(second, &[(DISK, available)]);
        let round = tracker.round(observations, seconds(u64::try_from(second).unwrap()));
        assert_eq!(!round.active.is_empty(), expected, "{second}");
        assert!(round.pressure.disk, "the condition has no grace period: {second}");
    }
}

// behaviour: EVI-7
#[test]
fn threshold_stays_active_until_its_minimum_is_reclaimed() {
    let reclaim = Some(Level::Amount("50".parse().unwrap()));
    let threshold = Threshold { minimum_reclaim: reclaim, ..hard(DISK, "100") };
    let mut tracker = Tracker::new(vec![threshold], TRANSITION);
    let rows = [(120, false), (99, true), (120, true), (149, true), (150, false), (120, false)];
    for (second, (available, expected)) in rows.into_iter().enumerate() {
        let observations = seen(i64::try_from(second).unwrap(), &[(DISK, available)]);
        let was_resolved = tracker.is_resolved(&observations);
        assert_eq!(was_resolved, available >= 150, "{second}");
        let round = tracker.round(observations, seconds(second as u64));
        assert_eq!(!round.active.is_empty(), expected, "{second}: {available}");
    }
}

// behaviour: EVI-14
#[test]
fn measurement_requires_action_only_once() {
    let mut tracker = Tracker::new(vec![hard(DISK, "100")], TRANSITION);
    assert_eq!(active(&tracker.round(seen(1, &[(DISK, 1)]), seconds(0))), [DISK]);
    let again = tracker.round(seen(1, &[(DISK, 1)]), seconds(10));
    assert!(again.active.is_empty() && again.pressure.disk);
    assert_eq!(active(&tracker.round(seen(2, &[(DISK, 1)]), seconds(20))), [DISK]);
}

// behaviour: EVI-15
#[test]
fn condition_stays_for_the_transition_period() {
    let mut tracker =
        Tracker::new(vec![hard(DISK, "100"), hard(Signal::PidAvailable, "5")], TRANSITION);
    let rows = [
        (0, 99, [false, true, false]),
        (10, 500, [false, true, false]),
        (299, 500, [false, true, false]),
        (300, 500, [false, false, false]),
    ];
    for (second, available, [memory, disk, pid]) in rows {
        let observations = seen(second, &[(DISK, available), (Signal::PidAvailable, 5)]);
        let round = tracker.round(observations, seconds(u64::try_from(second).unwrap()));
        assert_eq!(round.pressure, Pressure { memory, disk, pid }, "{second}");
    }
}

// behaviour: EVI-2
#[test]
fn signal_without_observation_is_skipped() {
    let mut tracker = Tracker::new(vec![hard(MEMORY, "100"), hard(DISK, "100")], TRANSITION);
    let round = tracker.round(seen(0, &[(DISK, 1)]), seconds(0));
    assert_eq!((round.unobserved.clone(), active(&round)), (vec![MEMORY], vec![DISK]));
    assert!(tracker.is_resolved(&Observations::new()));
}

// behaviour: EVI-16
#[test]
fn memory_is_reclaimed_before_other_resources() {
    let soft = Threshold { grace: seconds(1), ..hard(MEMORY, "100") };
    let thresholds = vec![
        hard(Signal::PidAvailable, "100"),
        hard(DISK, "100"),
        hard(Signal::AllocatableMemoryAvailable, "100"),
        soft,
    ];
    let mut tracker = Tracker::new(thresholds, TRANSITION);
    let all = [
        (MEMORY, 1),
        (DISK, 1),
        (Signal::PidAvailable, 1),
        (Signal::AllocatableMemoryAvailable, 1),
    ];
    let first = [Signal::AllocatableMemoryAvailable, Signal::PidAvailable, DISK];
    assert_eq!(active(&tracker.round(seen(0, &all), seconds(0))), first);
    let then = [Signal::AllocatableMemoryAvailable, MEMORY, Signal::PidAvailable, DISK];
    assert_eq!(active(&tracker.round(seen(1, &all), seconds(1))), then);
}
