//! How many deletions are under way at a time: more while the API server keeps up, half as many each
//! time it complains.

use std::time::Duration;

/// How long the server is left alone when it complains and does not say for how long.
const PAUSE: Duration = Duration::from_secs(1);
/// No pause is longer, whatever the server says.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The pace of deletions. Times count from any fixed moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pace {
    most: usize,
    limit: usize,
    /// How many went well since the limit last changed.
    well: usize,
    /// Until then complaints are about what was asked before the last one was heard.
    paused_until: Duration,
}

impl Pace {
    /// A pace of at most so many at a time.
    pub fn new(most: usize) -> Self {
        let most = most.max(1);
        Self { most, limit: most, well: 0, paused_until: Duration::ZERO }
    }

    /// How many may be under way.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// How long to wait before the next one.
    pub fn pause(&self, now: Duration) -> Duration {
        self.paused_until.saturating_sub(now)
    }

    /// One was answered without complaint. As many as are allowed at a time must go well before one
    /// more is.
    pub fn answered(&mut self) {
        self.well += 1;
        if self.well >= self.limit {
            self.well = 0;
            self.limit = (self.limit + 1).min(self.most);
        }
    }

    /// The server complained. Complaints about what was asked together count once.
    pub fn throttled(&mut self, now: Duration, retry_after: Option<Duration>) {
        let pause = retry_after.unwrap_or(PAUSE).min(LONGEST_PAUSE);
        if now >= self.paused_until {
            self.limit = (self.limit / 2).max(1);
            self.well = 0;
        }
        self.paused_until = self.paused_until.max(now + pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn complaints_halve_it_once_for_all_that_was_asked_together() {
        let mut pace = Pace::new(16);
        pace.throttled(SECOND, Some(SECOND * 3));
        assert_eq!((pace.limit(), pace.pause(SECOND)), (8, SECOND * 3));
        pace.throttled(SECOND * 2, None);
        assert_eq!((pace.limit(), pace.pause(SECOND * 2)), (8, SECOND * 2));
        pace.throttled(SECOND * 4, None);
        assert_eq!((pace.limit(), pace.pause(SECOND * 4)), (4, SECOND));
    }

    #[test]
    fn it_never_stops_and_never_waits_for_ever() {
        let mut pace = Pace::new(0);
        assert_eq!(pace.limit(), 1);
        pace.throttled(SECOND, Some(SECOND * 3600));
        assert_eq!((pace.limit(), pace.pause(SECOND)), (1, LONGEST_PAUSE));
    }

    #[test]
    fn answers_raise_it_slowly_up_to_its_bound() {
        let mut pace = Pace::new(4);
        pace.throttled(SECOND, None);
        assert_eq!(pace.limit(), 2);
        for expected in [2, 3, 3, 3, 4, 4, 4, 4, 4] {
            pace.answered();
            assert_eq!(pace.limit(), expected);
        }
    }
}
