//! A token bucket: limits bursts and the average rate.

use std::time::Duration;

use jiff::Timestamp;

/// A token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tokens {
    /// The time in which a token is added.
    each: Duration,
    /// The available tokens, as time.
    there: Duration,
    full: Duration,
    since: Timestamp,
}

impl Tokens {
    /// A full bucket.
    pub fn new(burst: u32, each: Duration, now: Timestamp) -> Self {
        let full = each * burst;
        Self { each, there: full, full, since: now }
    }

    /// Takes a token, if there is one.
    pub fn take(&mut self, now: Timestamp) -> bool {
        // A clock that was set back adds and removes nothing.
        let passed = Duration::try_from(now.duration_since(self.since)).unwrap_or(Duration::ZERO);
        self.there = self.there.saturating_add(passed).min(self.full);
        self.since = now;
        match self.there.checked_sub(self.each) {
            Some(left) => {
                self.there = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_bucket_allows_a_burst_then_the_rate() {
        let at = |second: i64| Timestamp::constant(second, 0);
        let mut tokens = Tokens::new(2, Duration::from_secs(10), at(0));
        assert!(tokens.take(at(0)) && tokens.take(at(0)) && !tokens.take(at(9)));
        assert!(tokens.take(at(10)) && !tokens.take(at(19)) && tokens.take(at(20)));
        assert!(!tokens.take(at(5)), "the clock went back");
        assert!(tokens.take(at(1000)) && tokens.take(at(1000)) && !tokens.take(at(1000)));
    }
}
