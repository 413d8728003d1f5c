//! How long a node name must be missing before its node is read from the API server.

use std::collections::BTreeMap;
use std::time::Duration;

/// The duration, from the first cycle that missed the name, like upstream.
pub const QUARANTINE: Duration = Duration::from_secs(40);

/// Waiting node names, with start and end of their waits. Times count from any fixed moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantine {
    /// The duration of a wait.
    time: Duration,
    waiting: BTreeMap<String, Wait>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wait {
    since: Duration,
    until: Duration,
}

/// A name whose wait has ended.
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

    /// Takes the names that pods have and the cache lacks; returns the names whose nodes are to be read. A
    /// waiting name keeps its start. A due name begins to wait again at once, as in upstream's queue: whatever
    /// the response, it is not read again before that wait has ended.
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

    /// The names whose waits will have ended at `now`, if they are still missing.
    pub fn waited(&self, now: Duration) -> impl Iterator<Item = &str> {
        let over = self.waiting.iter().filter(move |(_, wait)| wait.until <= now);
        over.map(|(name, _)| name.as_str())
    }

    /// Deletions of pods of these nodes were deferred: the names are due again at once.
    pub fn put_off<'a>(&mut self, names: impl Iterator<Item = &'a str>, now: Duration) {
        for name in names {
            if let Some(wait) = self.waiting.get_mut(name) {
                wait.until = wait.until.min(now);
            }
        }
    }

    /// The number of waiting names.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no name waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
#[path = "quarantine_tests.rs"]
mod tests;
