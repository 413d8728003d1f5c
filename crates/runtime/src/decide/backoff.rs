//! Back-off: the delay before a retry of repeated failures.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

/// An entry older than this is reset.
const RESET_AFTER: Duration = Duration::from_mins(10);

/// The bounds of the delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackoffLimits {
    /// The first delay.
    pub base: Duration,
    /// The longest.
    pub max: Duration,
}

impl BackoffLimits {
    /// 10 s doubling to the given maximum; a maximum below 10 s is also the first delay.
    pub fn up_to(max: Duration) -> Self {
        Self { base: Duration::from_secs(10).min(max), max }
    }
}

/// Whether an attempt may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Now.
    Now,
    /// Later.
    NotBefore {
        /// The time.
        at: Timestamp,
        /// The delay.
        delay: Duration,
    },
}

/// The delays by key. Upstream's `flowcontrol.Backoff`: the delay counts from
/// the end of the failed attempt, and doubles with each new attempt.
#[derive(Debug, Clone)]
pub struct Backoff<K> {
    limits: BackoffLimits,
    entries: BTreeMap<K, Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    delay: Duration,
    /// When the last attempt started.
    updated: Timestamp,
}

fn since(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or(Duration::ZERO)
}

impl<K: Ord + Clone> Backoff<K> {
    /// No delays yet.
    pub fn new(limits: BackoffLimits) -> Self {
        Self { limits, entries: BTreeMap::new() }
    }

    /// Whether to retry now after a failure at `failed`; if so, the next delay is set. A failure that
    /// is further in the future than its delay was recorded before the clock was set back: waiting
    /// for it could take forever.
    pub fn turn(&mut self, key: &K, failed: Timestamp, now: Timestamp) -> Turn {
        if let Some(entry) = self.entries.get(key)
            && since(entry.updated, failed) <= RESET_AFTER
            && since(failed, now) < entry.delay
            && since(now, failed) <= entry.delay
        {
            let at = failed.checked_add(entry.delay).unwrap_or(now);
            return Turn::NotBefore { at, delay: entry.delay };
        }
        let delay = match self.entries.get(key) {
            Some(entry) if since(entry.updated, failed) <= RESET_AFTER => {
                entry.delay.saturating_mul(2).min(self.limits.max)
            }
            _ => self.limits.base,
        };
        self.entries.insert(key.clone(), Entry { delay, updated: now });
        Turn::Now
    }

    /// The current delay after a failure at `failed`; `None` for a first failure.
    pub fn delay(&self, key: &K, failed: Timestamp) -> Option<Duration> {
        let entry = self.entries.get(key)?;
        (since(entry.updated, failed) <= RESET_AFTER).then_some(entry.delay)
    }

    /// Drops entries without a recent failure.
    pub fn expire(&mut self, now: Timestamp) {
        let oldest = RESET_AFTER.max(self.limits.max.saturating_mul(2));
        self.entries.retain(|_, entry| since(entry.updated, now) <= oldest);
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    /// The delays of a container that fails at once at every start.
    fn delays(limits: BackoffLimits, attempts: usize) -> Vec<u64> {
        let mut backoff = Backoff::new(limits);
        let (mut failed, mut now) = (at(0), at(0));
        let mut delays = Vec::new();
        for _ in 0..attempts {
            assert_eq!(backoff.turn(&"c", failed, now), Turn::Now);
            failed = now;
            match backoff.turn(&"c", failed, now) {
                Turn::NotBefore { at, delay } => {
                    delays.push(delay.as_secs());
                    now = at;
                }
                Turn::Now => panic!("no delay after a failed attempt"),
            }
        }
        delays
    }

    #[test]
    fn back_off_doubles_from_ten_seconds_to_the_maximum() {
        let limits = BackoffLimits::up_to(Duration::from_mins(5));
        assert_eq!(delays(limits, 7), [10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn maximum_below_the_base_is_also_the_base() {
        assert_eq!(delays(BackoffLimits::up_to(Duration::from_secs(3)), 3), [3, 3, 3]);
    }

    #[test]
    fn delay_counts_from_the_end_of_the_failed_attempt() {
        let mut backoff = Backoff::new(BackoffLimits::up_to(Duration::from_mins(5)));
        assert_eq!(backoff.turn(&"c", at(0), at(0)), Turn::Now);
        // It ran for a minute and then failed.
        let turn = backoff.turn(&"c", at(60), at(61));
        assert_eq!(turn, Turn::NotBefore { at: at(70), delay: Duration::from_secs(10) });
        assert_eq!(backoff.turn(&"c", at(60), at(70)), Turn::Now);
    }

    #[test]
    fn back_off_resets_after_ten_minutes_without_a_failure() {
        let mut backoff = Backoff::new(BackoffLimits::up_to(Duration::from_mins(5)));
        assert_eq!(backoff.turn(&"c", at(0), at(0)), Turn::Now);
        assert_eq!(backoff.turn(&"c", at(10), at(20)), Turn::Now);
        // Ran for more than ten minutes since it was let through at 20.
        assert_eq!(backoff.turn(&"c", at(621), at(621)), Turn::Now);
        let turn = backoff.turn(&"c", at(622), at(622));
        assert_eq!(turn, Turn::NotBefore { at: at(632), delay: Duration::from_secs(10) });
    }

    #[test]
    fn clock_set_back_costs_at_most_one_delay() {
        let laid = || {
            let mut backoff = Backoff::new(BackoffLimits::up_to(Duration::from_mins(5)));
            assert_eq!(backoff.turn(&"c", at(0), at(0)), Turn::Now);
            backoff
        };
        let turn = laid().turn(&"c", at(5), at(-5));
        assert_eq!(turn, Turn::NotBefore { at: at(15), delay: Duration::from_secs(10) });
        let mut backoff = laid();
        assert_eq!(backoff.turn(&"c", at(5), at(-3600)), Turn::Now);
        // From then on the new time counts.
        let turn = backoff.turn(&"c", at(-3590), at(-3590));
        assert_eq!(turn, Turn::NotBefore { at: at(-3570), delay: Duration::from_secs(20) });
    }

    #[test]
    fn other_keys_are_not_delayed() {
        let mut backoff = Backoff::new(BackoffLimits::up_to(Duration::from_mins(5)));
        assert_eq!(backoff.turn(&"a", at(0), at(0)), Turn::Now);
        assert_eq!(backoff.turn(&"b", at(0), at(0)), Turn::Now);
    }

    #[test]
    fn old_entries_are_dropped() {
        let mut backoff = Backoff::new(BackoffLimits::up_to(Duration::from_mins(5)));
        assert_eq!(backoff.turn(&"c", at(0), at(0)), Turn::Now);
        backoff.expire(at(600));
        assert_eq!(backoff.len(), 1);
        backoff.expire(at(601));
        assert!(backoff.is_empty());
    }

    proptest! {
        #[test]
        fn next_attempt_is_never_further_away_than_the_maximum(
            steps in proptest::collection::vec((0i64..700, 0i64..400), 1..40),
        ) {
            let limits = BackoffLimits::up_to(Duration::from_mins(5));
            let mut backoff = Backoff::new(limits);
            let mut clock = 0;
            for (ran, waited) in steps {
                let failed = at(clock + ran);
                let now = at(clock + ran + waited);
                if let Turn::NotBefore { at, delay } = backoff.turn(&"c", failed, now) {
                    prop_assert!(delay <= limits.max);
                    prop_assert!(at > now && since(now, at) <= limits.max);
                }
                clock += ran + waited;
            }
        }
    }
}
