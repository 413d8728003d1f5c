//! A bounded cache of reviews.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use tokio::time::Instant;

/// The maximum number of entries. Beyond that, the least recently used one is removed.
const MOST: usize = 8192;

/// Results by their requests, each until it expires.
#[derive(Debug)]
pub(crate) struct ReviewCache<Q, A> {
    entries: HashMap<Q, Entry<A>>,
    /// The requests in the order of their last use.
    uses: BTreeMap<u64, Q>,
    next_use: u64,
}

#[derive(Debug)]
struct Entry<A> {
    result: A,
    until: Instant,
    last_use: u64,
}

impl<Q, A> Default for ReviewCache<Q, A> {
    fn default() -> Self {
        Self { entries: HashMap::new(), uses: BTreeMap::new(), next_use: 0 }
    }
}

impl<Q: Clone + Eq + Hash, A: Clone> ReviewCache<Q, A> {
    /// The result for a request, if one is stored and has not expired.
    pub(crate) fn get(&mut self, request: &Q, now: Instant) -> Option<A> {
        let entry = self.entries.get_mut(request)?;
        if entry.until <= now {
            self.remove(request);
            return None;
        }
        let result = entry.result.clone();
        let used = std::mem::replace(&mut entry.last_use, self.next_use);
        if let Some(request) = self.uses.remove(&used) {
            self.uses.insert(self.next_use, request);
        }
        self.next_use += 1;
        Some(result)
    }

    /// Stores a result until a time.
    pub(crate) fn insert(&mut self, request: Q, result: A, until: Instant, now: Instant) {
        self.remove(&request);
        if until <= now {
            return;
        }
        while self.entries.len() >= MOST
            && let Some((_, oldest)) = self.uses.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.uses.insert(self.next_use, request.clone());
        self.entries.insert(request, Entry { result, until, last_use: self.next_use });
        self.next_use += 1;
    }

    fn remove(&mut self, request: &Q) {
        if let Some(entry) = self.entries.remove(request) {
            self.uses.remove(&entry.last_use);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn results_expire() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut cache = ReviewCache::default();
        cache.insert(0, "a", start + second, start);
        assert_eq!(cache.get(&0, start), Some("a"));
        assert_eq!(cache.get(&1, start), None);
        assert_eq!(cache.get(&0, start + second), None);
        cache.insert(0, "b", start + second * 2, start);
        assert_eq!(cache.get(&0, start), Some("b"));
        cache.insert(0, "c", start, start);
        assert_eq!(cache.get(&0, start), None, "expired at once");
        assert_eq!((cache.entries.len(), cache.uses.len()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn least_recently_used_result_is_removed_when_the_cache_is_full() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut cache = ReviewCache::default();
        for request in 0..MOST {
            cache.insert(request, (), start + second, start);
        }
        assert_eq!(cache.get(&0, start), Some(()));
        cache.insert(MOST, (), start + second, start);
        assert_eq!((cache.entries.len(), cache.uses.len()), (MOST, MOST));
        assert_eq!(cache.get(&0, start), Some(()), "used since");
        assert_eq!(cache.get(&1, start), None);
    }
}
