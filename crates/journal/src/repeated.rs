//! Failures that were told before: a thing that cannot be removed is tried again every minute, and must not
//! fill the journal with that.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::time::{Duration, Instant};

use model::ports::journal::Outcome;
use model::verdict::Verdict;

/// For so long, and at most twice as long, a failure is remembered.
const REMEMBERED: Duration = Duration::from_hours(12);
/// Of so many things, and of as many that were remembered before these.
const MOST: usize = 32 * 1024;
/// So many different failures of one thing are told in that time.
const DIFFERENT: u8 = 8;

/// What was told of failures, of a bounded number of things.
#[derive(Debug, Default)]
pub(crate) struct Repeated {
    recent: BTreeMap<u64, Told>,
    before: BTreeMap<u64, Told>,
    /// Since when the recent ones are remembered.
    since: Option<Instant>,
}

/// What was told of a thing.
#[derive(Debug, Clone, Copy)]
struct Told {
    /// The last failure: its rule, and what went wrong.
    last: u64,
    failures: u8,
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Repeated {
    /// Whether this is to be told: all but a failure that was told before, by the same rule and for the
    /// same reason, and nothing else came of it since.
    pub(crate) fn is_news(
        &mut self,
        verdict: &Verdict,
        outcome: Outcome<'_>,
        now: Instant,
    ) -> bool {
        let thing = hash((verdict.subject.kind(), verdict.subject.id()));
        let Outcome::Failed(error) = outcome else {
            self.recent.remove(&thing);
            self.before.remove(&thing);
            return true;
        };
        self.forget_old(now);
        let last = hash((verdict.rule, error));
        let told = self.recent.get(&thing).or_else(|| self.before.get(&thing));
        let failures = told.map_or(0, |told| told.failures);
        if failures >= DIFFERENT || told.is_some_and(|told| told.last == last) {
            return false;
        }
        self.recent.insert(thing, Told { last, failures: failures + 1 });
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
    fn a_failure_is_told_again_when_it_is_another_and_after_a_day() {
        let (begin, mut repeated) = (begin(), Repeated::default());
        let mut news = |hour: u32, id: &str, rule, outcome| {
            repeated.is_news(&verdict(id, rule), outcome, begin + HOUR * hour)
        };
        let busy = Outcome::Failed("busy");
        assert!(news(0, "a", "old", busy));
        assert!(!news(0, "a", "old", busy));
        assert!(news(0, "b", "old", busy), "another thing");
        assert!(news(0, "a", "cap", busy), "another rule");
        assert!(news(0, "a", "old", Outcome::Failed("lost")), "another failure");
        assert!(!news(11, "a", "old", Outcome::Failed("lost")));
        assert!(news(11, "a", "old", Outcome::Removed));
        assert!(news(11, "a", "old", Outcome::Removed), "what works is always told");
        assert!(news(11, "a", "old", Outcome::Failed("lost")), "it was gone in between");
        let told: Vec<u32> = (12..80).filter(|hour| news(*hour, "a", "old", busy)).collect();
        assert_eq!(told, [12, 36, 60], "at first, and once a day");
        assert!(news(200, "a", "old", busy));
    }

    // behaviour: GC-101
    #[test]
    fn failures_that_never_repeat_are_told_a_few_times() {
        let (begin, mut repeated) = (begin(), Repeated::default());
        let told = (0..1000).filter(|number| {
            let error = format!("version {number} is not {}", number + 1);
            repeated.is_news(&verdict("a", "old"), Outcome::Failed(&error), begin)
        });
        assert_eq!(told.count(), usize::from(DIFFERENT));
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let (begin, mut repeated) = (begin(), Repeated::default());
        let mut told = |id: usize| {
            let verdict = verdict(&format!("c{id}"), "old");
            let told = repeated.is_news(&verdict, Outcome::Failed("busy"), begin);
            (told, repeated.recent.len() + repeated.before.len())
        };
        let most = (0..3 * MOST).map(|id| told(id).1).max();
        assert_eq!(most, Some(2 * MOST));
        assert!((2 * MOST..3 * MOST).all(|id| !told(id).0), "the newest are remembered");
    }
}
