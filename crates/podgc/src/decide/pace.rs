//! The number of concurrent deletions: it grows while the API server keeps up, and is halved each time the
//! server throttles or fails.

use std::time::Duration;

use model::ports::cluster::ApiError;

/// The pause if the server throttles without a duration.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The load of the server, according to a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// The server keeps up.
    Well,
    /// Nothing: the server was not called, or the response concerns one pod.
    Nothing,
    /// The server fails or does not respond.
    Strained,
    /// The server throttles, perhaps with a duration.
    Throttled(Option<Duration>),
}

impl Sign {
    /// The meaning of an error.
    pub fn of(error: &ApiError) -> Self {
        match error {
            ApiError::Throttled { retry_after } => Self::Throttled(*retry_after),
            ApiError::Unreachable(_) | ApiError::TooSlow(_) => Self::Strained,
            ApiError::Refused { code, .. } if *code >= 500 => Self::Strained,
            ApiError::NotFound
            | ApiError::Conflict(_)
            | ApiError::Refused { .. }
            | ApiError::Unreadable(_) => Self::Nothing,
        }
    }
}

/// The pace of deletions. Times count from any fixed moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pace {
    most: usize,
    limit: usize,
    /// Successful requests since the limit last changed.
    well: usize,
    /// Throttled responses before this time belong to requests that were sent before the last one.
    paused_until: Duration,
    /// Like `paused_until`, for failures.
    lowered_until: Duration,
}

impl Pace {
    /// A pace with at most `most` concurrent deletions.
    pub fn new(most: usize) -> Self {
        let most = most.max(1);
        let (paused_until, lowered_until) = (Duration::ZERO, Duration::ZERO);
        Self { most, limit: most, well: 0, paused_until, lowered_until }
    }

    /// The current limit of concurrent deletions.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// How long to wait before the next one.
    pub fn pause(&self, now: Duration) -> Duration {
        self.paused_until.saturating_sub(now)
    }

    /// Records a response.
    pub fn saw(&mut self, sign: Sign, now: Duration) {
        match sign {
            Sign::Well => self.went_well(),
            Sign::Nothing => {}
            Sign::Strained => self.strained(now),
            Sign::Throttled(retry_after) => self.throttled(now, retry_after),
        }
    }

    /// The limit grows by one after as many successes as the limit.
    fn went_well(&mut self) {
        self.well += 1;
        if self.well >= self.limit {
            self.well = 0;
            self.limit = (self.limit + 1).min(self.most);
        }
    }

    /// The server failed. Requests continue without a pause: the failure may concern one pod only.
    fn strained(&mut self, now: Duration) {
        self.well = 0;
        if now >= self.lowered_until {
            self.limit = (self.limit / 2).max(1);
            self.lowered_until = now + PAUSE;
        }
    }

    /// The server throttled. Responses to concurrent requests count once.
    fn throttled(&mut self, now: Duration, retry_after: Option<Duration>) {
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

    // behaviour: PGC-75, PGC-81
    #[test]
    fn responses_are_classified_by_server_load() {
        let refused = |code| ApiError::Refused { code, message: String::new() };
        let retry_after = Some(SECOND);
        let rows = [
            (ApiError::Throttled { retry_after }, Sign::Throttled(retry_after)),
            (ApiError::Throttled { retry_after: None }, Sign::Throttled(None)),
            (ApiError::TooSlow(SECOND), Sign::Strained),
            (ApiError::Unreachable("down".into()), Sign::Strained),
            (refused(500), Sign::Strained),
            (refused(503), Sign::Strained),
            (refused(403), Sign::Nothing),
            (ApiError::NotFound, Sign::Nothing),
            (ApiError::Conflict(String::new()), Sign::Nothing),
            (ApiError::Unreadable("nonsense".into()), Sign::Nothing),
        ];
        for (error, sign) in rows {
            assert_eq!(Sign::of(&error), sign, "{error}");
        }
    }

    // behaviour: PGC-81
    #[test]
    fn failures_only_lower_the_limit() {
        let mut pace = Pace::new(16);
        for _ in 0..16 {
            pace.saw(Sign::Strained, SECOND);
        }
        assert_eq!((pace.limit(), pace.pause(SECOND)), (8, Duration::ZERO), "all together once");
        for _ in 0..100 {
            pace.saw(Sign::Nothing, SECOND);
        }
        assert_eq!(pace.limit(), 8);
        for second in 2..9 {
            pace.saw(Sign::Strained, SECOND * second);
        }
        assert_eq!(pace.limit(), 1);
        // Successes before a failure do not count.
        let mut pace = Pace::new(4);
        pace.saw(Sign::Strained, SECOND);
        pace.saw(Sign::Well, SECOND);
        pace.saw(Sign::Strained, SECOND);
        pace.saw(Sign::Well, SECOND);
        assert_eq!(pace.limit(), 2);
        pace.saw(Sign::Well, SECOND);
        assert_eq!(pace.limit(), 3);
    }

    #[test]
    fn throttling_halves_the_limit_once_per_batch() {
        let mut pace = Pace::new(16);
        pace.saw(Sign::Throttled(Some(SECOND * 3)), SECOND);
        assert_eq!((pace.limit(), pace.pause(SECOND)), (8, SECOND * 3));
        pace.saw(Sign::Throttled(None), SECOND * 2);
        assert_eq!((pace.limit(), pace.pause(SECOND * 2)), (8, SECOND * 2));
        pace.saw(Sign::Throttled(None), SECOND * 4);
        assert_eq!((pace.limit(), pace.pause(SECOND * 4)), (4, SECOND));
    }

    #[test]
    fn limit_and_pause_stay_within_their_bounds() {
        let mut pace = Pace::new(0);
        assert_eq!(pace.limit(), 1);
        pace.saw(Sign::Throttled(Some(SECOND * 3600)), SECOND);
        assert_eq!((pace.limit(), pace.pause(SECOND)), (1, LONGEST_PAUSE));
    }

    #[test]
    fn successes_raise_the_limit_slowly_up_to_its_bound() {
        let mut pace = Pace::new(4);
        pace.saw(Sign::Throttled(None), SECOND);
        assert_eq!(pace.limit(), 2);
        for expected in [2, 3, 3, 3, 4, 4, 4, 4, 4] {
            pace.saw(Sign::Well, SECOND);
            assert_eq!(pace.limit(), expected);
        }
    }
}
