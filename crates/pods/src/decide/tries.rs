//! When what failed is tried again: each thing by itself, ever more rarely. Times are counted from any one
//! beginning.

use std::collections::BTreeMap;
use std::time::Duration;

/// How long something waits that failed, at first and at most.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Things that failed, each with how long it waits and until when.
#[derive(Debug)]
pub(crate) struct Tries<K>(BTreeMap<K, (Duration, Duration)>);

impl<K> Default for Tries<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Tries<K> {
    /// Whether it is too early for something.
    pub(crate) fn waits(&self, key: &K, now: Duration) -> bool {
        self.0.get(key).is_some_and(|(_, until)| *until > now)
    }

    /// Something failed, once more or for the first time.
    pub(crate) fn failed(&mut self, key: K, now: Duration) {
        let wait = self.0.get(&key).map_or(FIRST_WAIT, |(wait, _)| (*wait * 2).min(LONGEST_WAIT));
        self.0.insert(key, (wait, now + wait));
    }

    /// Something went well.
    pub(crate) fn went(&mut self, key: &K) {
        self.0.remove(key);
    }

    /// Only these still matter.
    pub(crate) fn retain(&mut self, mut matters: impl FnMut(&K) -> bool) {
        self.0.retain(|key, _| matters(key));
    }

    /// Whether nothing failed that was not mended since.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When the first of them may be tried again.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.0.values().map(|(_, until)| *until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_waits_by_itself_ever_longer_until_it_went_well() {
        let (start, mut tries) = (Duration::from_hours(1), Tries::default());
        assert!(!tries.waits(&"a", start));
        let (mut now, mut waits) = (start, Vec::new());
        for _ in 0..7 {
            tries.failed("a", now);
            assert!(tries.waits(&"a", now) && !tries.waits(&"b", now));
            let next = tries.next().unwrap();
            assert!(!tries.waits(&"a", next));
            waits.push(next.saturating_sub(now).as_secs());
            now = next;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        tries.failed("b", now);
        tries.went(&"a");
        assert_eq!(tries.next(), Some(now + FIRST_WAIT));
        tries.retain(|key| *key == "a");
        assert!(tries.is_empty() && tries.next().is_none());
    }
}
