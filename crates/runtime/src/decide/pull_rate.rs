//! The limit of pulls per second.

use std::time::Duration;

/// The limit of pulls per second: `registryPullQPS` and `registryBurst`. The default has no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PullRate {
    /// Pulls per second; 0 for no limit.
    pub per_second: u32,
    /// The burst: pulls that may begin at once after an idle time.
    pub burst: u32,
}

/// A token bucket, full at first. It keeps the time at which it would be full again instead of a number of tokens.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    /// The time in which a token is added; `None` without a limit.
    period: Option<Duration>,
    /// The time in which it fills.
    capacity: Duration,
    /// When it is full.
    full_at: Duration,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(rate: PullRate) -> Self {
        let period = (rate.per_second > 0).then(|| Duration::from_secs(1) / rate.per_second);
        let capacity = period.unwrap_or_default().saturating_mul(rate.burst.max(1));
        Self { period, capacity, full_at: Duration::ZERO }
    }

    /// Takes a token, if there is one. The time counts from any fixed moment.
    pub fn take(&mut self, now: Duration) -> bool {
        let Some(period) = self.period else { return true };
        let full_at = self.full_at.max(now).saturating_add(period);
        let fits = full_at <= now.saturating_add(self.capacity);
        if fits {
            self.full_at = full_at;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `tries` attempts at a time succeed.
    fn taken(bucket: &mut TokenBucket, tries: usize, millis: u64) -> usize {
        let now = Duration::from_millis(millis);
        (0..tries).filter(|_| bucket.take(now)).count()
    }

    // behaviour: PULL-6
    #[test]
    fn burst_is_spent_at_once_and_refilled_at_the_rate() {
        let mut bucket = TokenBucket::new(PullRate { per_second: 5, burst: 10 });
        assert_eq!(taken(&mut bucket, 20, 0), 10);
        assert_eq!(taken(&mut bucket, 20, 199), 0);
        assert_eq!(taken(&mut bucket, 20, 200), 1);
        assert_eq!(taken(&mut bucket, 20, 1000), 4);
        assert_eq!(taken(&mut bucket, 20, 60_000), 10, "no more than the burst is saved up");
    }

    // behaviour: PULL-6
    #[test]
    fn rate_of_zero_means_no_limit() {
        let mut bucket = TokenBucket::new(PullRate { per_second: 0, burst: 1 });
        assert_eq!(taken(&mut bucket, 1000, 0), 1000);
    }

    #[test]
    fn refused_pull_costs_no_token() {
        let mut bucket = TokenBucket::new(PullRate { per_second: 1, burst: 1 });
        assert_eq!(taken(&mut bucket, 5, 0), 1);
        assert_eq!(taken(&mut bucket, 1, 999), 0);
        assert_eq!(taken(&mut bucket, 1, 1000), 1);
    }
}
