use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;
const LIMITS: Limits = Limits { size: Some(10 * MIB), interval: Duration::from_secs(10) };

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A check of a log that had 1 MiB.
struct Row {
    name: &'static str,
    rate: u64,
    delay: Duration,
    size: u64,
    elapsed: Duration,
    may_rotate_in: Duration,
    expected: NextLook,
}

impl Default for Row {
    fn default() -> Self {
        Self {
            name: "",
            rate: 0,
            delay: ms(10_000),
            size: MIB,
            elapsed: ms(1000),
            may_rotate_in: Duration::ZERO,
            expected: NextLook::OnWrite,
        }
    }
}

// behaviour: ROT-3, ROT-4
#[test]
fn next_check_time_follows_from_growth() {
    use NextLook::{After, OnWrite, Rotate};
    let rows = [
        Row { name: "quiet for an interval", expected: OnWrite, ..Row::default() },
        Row {
            name: "quiet, not for long",
            delay: ms(200),
            expected: After(ms(400)),
            ..Row::default()
        },
        Row {
            name: "1 MiB/s, 8 MiB left",
            size: 2 * MIB,
            expected: After(ms(8000)),
            ..Row::default()
        },
        Row { name: "fast", size: 9 * MIB, expected: After(ms(200)), ..Row::default() },
        Row { name: "slow", size: MIB + 10, expected: After(ms(10_000)), ..Row::default() },
        Row {
            name: "slow now, it was fast",
            rate: 8 * MIB,
            size: 2 * MIB,
            expected: After(ms(2000)),
            ..Row::default()
        },
        Row {
            name: "slow, looked at a moment ago",
            delay: ms(300),
            size: MIB + 10,
            expected: After(ms(600)),
            ..Row::default()
        },
        Row { name: "full", size: 10 * MIB, expected: Rotate, ..Row::default() },
        Row {
            name: "full, rotated a moment ago",
            size: 11 * MIB,
            may_rotate_in: ms(700),
            expected: After(ms(700)),
            ..Row::default()
        },
        Row {
            name: "nearly full, rotated a moment ago",
            size: 9 * MIB,
            may_rotate_in: ms(700),
            expected: After(ms(700)),
            ..Row::default()
        },
        Row { name: "cut", size: 10, expected: After(ms(10_000)), ..Row::default() },
    ];
    for row in rows {
        let mut growth = Growth { size: MIB, rate: row.rate, delay: row.delay };
        let Row { size, elapsed, may_rotate_in, .. } = row;
        let look = LogCheck { size, elapsed, may_rotate_in };
        assert_eq!(growth.looked(look, LIMITS), row.expected, "{}", row.name);
        assert_eq!(growth.size(), size);
    }
}

#[test]
fn log_without_limit_is_checked_every_interval_while_it_grows() {
    let limits = Limits { size: None, ..LIMITS };
    let mut growth = Growth::quiet(0);
    growth.delay = limits.interval;
    let look = |size| LogCheck { size, elapsed: limits.interval, may_rotate_in: Duration::ZERO };
    assert_eq!(growth.looked(look(u64::MAX), limits), NextLook::After(limits.interval));
    assert_eq!(growth.looked(look(u64::MAX), limits), NextLook::OnWrite);
}

/// Writes at a rate for a minute into a log that is rotated as decided, and returns its largest size from its first
/// rotation on, if it was full at first.
fn largest(rate: u64, limits: Limits, is_full: bool) -> u64 {
    let (mut growth, mut next) = (Growth::quiet(0), NextLook::OnWrite);
    if is_full {
        growth = Growth::quiet(u64::MAX);
        let look = LogCheck { size: u64::MAX, elapsed: ms(1), may_rotate_in: ms(0) };
        next = growth.looked(look, limits);
    }
    let (mut now, mut looked_at, mut began) = (ms(0), ms(0), ms(0));
    let (mut rotated_at, mut largest) = (None::<Duration>, 0);
    let size_at = |now: Duration, began: Duration| {
        u64::try_from(u128::from(rate) * now.saturating_sub(began).as_millis() / 1000).unwrap()
    };
    while now < Duration::from_mins(1) {
        next = match next {
            NextLook::OnWrite => growth.written(),
            NextLook::After(delay) => {
                now += delay;
                let size = size_at(now, began);
                largest = largest.max(size);
                let may_rotate_in =
                    rotated_at.map_or(ms(0), |at| (at + ROTATION_GAP).saturating_sub(now));
                let look = LogCheck { size, elapsed: now.saturating_sub(looked_at), may_rotate_in };
                looked_at = now;
                growth.looked(look, limits)
            }
            NextLook::Rotate => {
                assert!(rotated_at.is_none_or(|at| now >= at + ROTATION_GAP));
                (rotated_at, began, looked_at) = (Some(now), now, now);
                growth.rotated(0, limits)
            }
        };
    }
    largest
}

proptest! {
    // behaviour: ROT-5
    #[test]
    fn steady_writer_exceeds_the_limit_by_at_most_1_2_seconds(
        rate in 1_u64..500_000_000,
        size in 1_000_u64..100_000_000,
        interval in 3_u64..100,
        is_full: bool,
    ) {
        let limits = Limits { size: Some(size), interval: Duration::from_secs(interval) };
        let largest = largest(rate, limits, is_full);
        prop_assert!(largest <= size + rate / 10 * 12 + rate % 10 * 2, "{largest}");
    }

    #[test]
    fn delays_stay_within_their_bounds(
        sizes in prop::collection::vec((0_u64..20_000_000, 1_u64..20_000), 1..50),
    ) {
        let mut growth = Growth::quiet(0);
        for (size, elapsed) in sizes {
            let look = LogCheck { size, elapsed: ms(elapsed), may_rotate_in: Duration::ZERO };
            if let NextLook::After(delay) = growth.looked(look, LIMITS) {
                prop_assert!((SHORTEST..=LIMITS.interval).contains(&delay));
            }
        }
    }
}
