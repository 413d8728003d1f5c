//! Back-off of pulls that failed.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::pull_messages::PullFailure;

/// The delay after the first failure.
const FIRST: Duration = Duration::from_secs(10);
/// The longest delay.
const LONGEST: Duration = Duration::from_mins(5);
/// An entry whose last failure is longer ago has expired.
const EXPIRY: Duration = LONGEST.saturating_mul(2);

/// The failed pulls of pods and images. As upstream's `flowcontrol.Backoff` in the image manager: the delay counts from
/// the last failure, and a success does not reset it before it expires.
#[derive(Debug, Clone)]
pub struct PullBackoff<K> {
    entries: BTreeMap<K, Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    delay: Duration,
    failed_at: Timestamp,
    why: PullFailure,
}

/// A pull that must wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullWait {
    /// The time of the next attempt.
    pub until: Timestamp,
    /// The failure of the last pull.
    pub last: PullFailure,
}

/// Zero if the clock was set back in between.
fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or(Duration::ZERO)
}

impl<K> Default for PullBackoff<K> {
    fn default() -> Self {
        Self { entries: BTreeMap::new() }
    }
}

impl<K: Ord> PullBackoff<K> {
    /// The time until which a pull must wait. A failure further in the future than its delay was recorded before the
    /// clock was set back; it does not count.
    pub fn wait(&self, key: &K, now: Timestamp) -> Option<PullWait> {
        let Entry { delay, failed_at, why } = self.entries.get(key)?;
        let waits = between(*failed_at, now) < *delay && between(now, *failed_at) <= *delay;
        let until = failed_at.checked_add(*delay).unwrap_or(now);
        waits.then(|| PullWait { until, last: why.clone() })
    }

    /// Records a failure.
    pub fn failed(&mut self, key: K, why: PullFailure, now: Timestamp) {
        let last = self.entries.get(&key).filter(|entry| !entry.has_expired(now));
        let delay = last.map_or(FIRST, |entry| entry.delay.saturating_mul(2).min(LONGEST));
        self.entries.insert(key, Entry { delay, failed_at: now, why });
    }

    /// Drops expired entries.
    pub fn collect(&mut self, now: Timestamp) {
        self.entries.retain(|_, entry| !entry.has_expired(now));
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

impl Entry {
    fn has_expired(&self, now: Timestamp) -> bool {
        between(self.failed_at, now) > EXPIRY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn why() -> PullFailure {
        PullFailure { reason: "ErrImagePull", message: "gone".to_owned() }
    }

    /// The delay after a failure at that second.
    fn delay(backoff: &mut PullBackoff<&'static str>, second: i64) -> i64 {
        backoff.failed("a", why(), at(second));
        let wait = backoff.wait(&"a", at(second)).unwrap();
        assert_eq!(wait.last, why());
        assert_eq!(backoff.wait(&"a", wait.until), None, "the wait ends");
        wait.until.duration_since(at(second)).as_secs()
    }

    // behaviour: PULL-8
    #[test]
    fn delay_doubles_from_10_seconds_to_5_minutes() {
        let mut backoff = PullBackoff::default();
        let delays: Vec<i64> = (0..7).map(|number| delay(&mut backoff, number * 300)).collect();
        assert_eq!(delays, [10, 20, 40, 80, 160, 300, 300]);
    }

    // behaviour: PULL-8
    #[test]
    fn delay_starts_over_only_after_600_seconds_without_failure() {
        let mut backoff = PullBackoff::default();
        assert_eq!(delay(&mut backoff, 0), 10);
        backoff.collect(at(600));
        assert_eq!(delay(&mut backoff, 600), 20, "a success in between does not matter");
        assert_eq!(delay(&mut backoff, 1201), 10);
        backoff.collect(at(1802));
        assert!(backoff.is_empty());
    }

    #[test]
    fn other_keys_do_not_wait() {
        let mut backoff = PullBackoff::default();
        backoff.failed("a", why(), at(0));
        assert_eq!(backoff.wait(&"b", at(1)), None);
        assert_eq!(backoff.len(), 1);
    }

    #[test]
    fn clock_set_back_costs_at_most_one_pull_delay() {
        let mut backoff = PullBackoff::default();
        backoff.failed("a", why(), at(0));
        assert!(backoff.wait(&"a", at(-10)).is_some());
        assert_eq!(backoff.wait(&"a", at(-11)), None);
    }
}
