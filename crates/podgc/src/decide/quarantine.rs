//! How long a node name must be missing before the API server is asked about it.

use std::collections::BTreeMap;
use std::time::Duration;

/// How long, from the cycle that first missed it, as upstream.
pub const QUARANTINE: Duration = Duration::from_secs(40);

/// Node names that wait, each with the time since when and until when. Times count from any fixed
/// moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantine {
    /// How long a name waits.
    time: Duration,
    waiting: BTreeMap<String, Wait>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wait {
    since: Duration,
    until: Duration,
}

/// A name that has waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// How long it has been missing.
    pub missing_for: Duration,
    /// How long it has been due.
    pub due_for: Duration,
}

impl Default for Quarantine {
    fn default() -> Self {
        Self::new(QUARANTINE)
    }
}

impl Quarantine {
    /// A quarantine of this duration, without names.
    pub fn new(time: Duration) -> Self {
        Self { time, waiting: BTreeMap::new() }
    }

    /// Takes the names that pods have and the cache of nodes has not; answers which of them the API server
    /// is to be asked about. One that waits already keeps its
    /// earlier time. One that is due begins to wait anew at once, as in upstream's queue: whatever the
    /// answer about it, it is not asked about again before the time is over.
    pub fn due<'a>(
        &mut self,
        missing: impl Iterator<Item = &'a str>,
        now: Duration,
    ) -> BTreeMap<String, Due> {
        // A name that is no longer missing is dropped with its time.
        let before = std::mem::take(&mut self.waiting);
        let mut due = BTreeMap::new();
        for name in missing {
            let first = Wait { since: now, until: now + self.time };
            let wait = match before.get(name) {
                None => first,
                Some(wait) if wait.until > now => *wait,
                Some(Wait { since, until }) => {
                    let missing_for = now.saturating_sub(*since);
                    let due_for = now.saturating_sub(*until);
                    due.insert(name.to_owned(), Due { missing_for, due_for });
                    Wait { since: *since, ..first }
                }
            };
            self.waiting.insert(name.to_owned(), wait);
        }
        due
    }

    /// The names that will be due when they are asked for at that time, if they are still missed.
    pub fn waited(&self, now: Duration) -> impl Iterator<Item = &str> {
        let over = self.waiting.iter().filter(move |(_, wait)| wait.until <= now);
        over.map(|(name, _)| name.as_str())
    }

    /// Pods of these nodes were to go and had to be put off: the names are due again at once.
    pub fn put_off<'a>(&mut self, names: impl Iterator<Item = &'a str>, now: Duration) {
        for name in names {
            if let Some(wait) = self.waiting.get_mut(name) {
                wait.until = wait.until.min(now);
            }
        }
    }

    /// How many names wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
#[path = "quarantine_tests.rs"]
mod tests;
