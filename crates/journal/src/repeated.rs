//! Repeated failures: a failed removal is retried every minute, and must not
//! fill the journal.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::time::{Duration, Instant};

use model::ports::journal::Outcome;
use model::verdict::Verdict;

/// How long a failure is remembered; at most twice as long.
const REMEMBERED: Duration = Duration::from_hours(12);
/// The number of remembered objects, and of as many older ones.
const MOST: usize = 32 * 1024;
/// The number of different failures of one object that are recorded in that time.
const DIFFERENT: u8 = 8;

/// The recorded failures of a bounded number of objects.
#[derive(Debug, Default)]
pub(crate) struct Repeated {
    recent: BTreeMap<u64, Recorded>,
    before: BTreeMap<u64, Recorded>,
    /// When the recent ones began.
    since: Option<Instant>,
}

/// The recorded failures of an object.
#[derive(Debug, Clone, Copy)]
struct Recorded {
    /// The last failure: its rule and error.
    last: u64,
    failures: u8,
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Repeated {
    /// Whether to record an outcome: every one, except a failure with the same rule and error as the
    /// last recorded one.
    pub(crate) fn is_new(&mut self, verdict: &Verdict, outcome: Outcome<'_>, now: Instant) -> bool {
        let thing = hash((verdict.subject.kind(), verdict.subject.id()));
        let Outcome::Failed(error) = outcome else {
            self.recent.remove(&thing);
            self.before.remove(&thing);
            return true;
        };
        self.forget_old(now);
        let last = hash((verdict.rule, error));
        let recorded = self.recent.get(&thing).or_else(|| self.before.get(&thing));
        let failures = recorded.map_or(0, |recorded| recorded.failures);
        if failures >= DIFFERENT || recorded.is_some_and(|recorded| recorded.last == last) {
            return false;
        }
        self.recent.insert(thing, Recorded { last, failures: failures + 1 });
        true
    }

    fn forget_old(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        let age = now.saturating_duration_since(since);
        if age >= REMEMBERED || self.recent.len() >= MOST {
            self.before = std::mem::take(&mut self.recent);
            self.since = Some(now);
        }
        if age >= REMEMBERED * 2 {
            self.before.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use model::verdict::Subject;
    use testkit::wanted::removal;

    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn verdict(id: &str, rule: &'static str) -> Verdict {
        Verdict { rule, ..removal(Subject::Container(id.into())) }
    }

    #[expect(clippy::disallowed_methods, reason = "there is no other way to have an instant")]
    fn begin() -> Instant {
        Instant::now()
    }

    // behaviour: GC-101
    #[test]
    fn failure_is_recorded_again_when_it_differs_and_after_a_day() {
        let (begin, mut repeated) = (begin(), Repeated::default());
        let mut news = |hour: u32, id: &str, rule, outcome| {
            repeated.is_new(&verdict(id, rule), outcome, begin + HOUR * hour)
        };
        let busy = Outcome::Failed("busy");
        assert!(news(0, "a", "old", busy));
        assert!(!news(0, "a", "old", busy));
        assert!(news(0, "b", "old", busy), "another thing");
        assert!(news(0, "a", "cap", busy), "another rule");
        assert!(news(0, "a", "old", Outcome::Failed("lost")), "another failure");
        assert!(!news(11, "a", "old", Outcome::Failed("lost")));
        assert!(news(11, "a", "old", Outcome::Removed));
        assert!(news(11, "a", "old", Outcome::Removed), "a success is always recorded");
        assert!(news(11, "a", "old", Outcome::Failed("lost")), "a success was in between");
        let recorded: Vec<u32> = (12..80).filter(|hour| news(*hour, "a", "old", busy)).collect();
        assert_eq!(recorded, [12, 36, 60], "at first, and once a day");
        assert!(news(200, "a", "old", busy));
    }

    // behaviour: GC-101
    #[test]
    fn number_of_different_failures_is_limited() {
        let (begin, mut repeated) = (begin(), Repeated::default());
        let recorded = (0..1000).filter(|number| {
            let error = format!("version {number} is not {}", number + 1);
            repeated.is_new(&verdict("a", "old"), Outcome::Failed(&error), begin)
        });
        assert_eq!(recorded.count(), usize::from(DIFFERENT));
    }

    #[test]
    fn memory_of_failures_is_bounded() {
        let (begin, mut repeated) = (begin(), Repeated::default());
        let mut record = |id: usize| {
            let verdict = verdict(&format!("c{id}"), "old");
            let recorded = repeated.is_new(&verdict, Outcome::Failed("busy"), begin);
            (recorded, repeated.recent.len() + repeated.before.len())
        };
        let most = (0..3 * MOST).map(|id| record(id).1).max();
        assert_eq!(most, Some(2 * MOST));
        assert!((2 * MOST..3 * MOST).all(|id| !record(id).0), "the newest are remembered");
    }
}
