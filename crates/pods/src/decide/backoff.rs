//! Back-off of failed keys, each with its own exponential wait. Times are relative to a fixed origin.

use std::collections::BTreeMap;
use std::time::Duration;

/// The first and the maximum wait after a failure.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Failed keys, each with the length and the end of its wait.
#[derive(Debug)]
pub(crate) struct Backoff<K>(BTreeMap<K, (Duration, Duration)>);

impl<K> Default for Backoff<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Backoff<K> {
    /// Whether a key still waits.
    pub(crate) fn waits(&self, key: &K, now: Duration) -> bool {
        self.0.get(key).is_some_and(|(_, until)| *until > now)
    }

    /// Records a failure of a key.
    pub(crate) fn failed(&mut self, key: K, now: Duration) {
        let wait = self.0.get(&key).map_or(FIRST_WAIT, |(wait, _)| (*wait * 2).min(LONGEST_WAIT));
        self.0.insert(key, (wait, now + wait));
    }

    /// Records a success of a key.
    pub(crate) fn succeeded(&mut self, key: &K) {
        self.0.remove(key);
    }

    /// Drops all other keys.
    pub(crate) fn retain(&mut self, mut matters: impl FnMut(&K) -> bool) {
        self.0.retain(|key, _| matters(key));
    }

    /// Whether no key has failed since its last success.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When the next key may be retried.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.0.values().map(|(_, until)| *until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_backs_off_until_it_succeeds() {
        let (start, mut backoff) = (Duration::from_hours(1), Backoff::default());
        assert!(!backoff.waits(&"a", start));
        let (mut now, mut waits) = (start, Vec::new());
        for _ in 0..7 {
            backoff.failed("a", now);
            assert!(backoff.waits(&"a", now) && !backoff.waits(&"b", now));
            let next = backoff.next().unwrap();
            assert!(!backoff.waits(&"a", next));
            waits.push(next.saturating_sub(now).as_secs());
            now = next;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        backoff.failed("b", now);
        backoff.succeeded(&"a");
        assert_eq!(backoff.next(), Some(now + FIRST_WAIT));
        backoff.retain(|key| *key == "a");
        assert!(backoff.is_empty() && backoff.next().is_none());
    }
}
