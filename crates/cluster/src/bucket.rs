//! A rate limit for calls.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::Rate;

/// A token bucket: a call takes a token, and waits for one if there is none.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// The interval between tokens; `None` for no limit.
    each: Option<Duration>,
    burst: u32,
    /// When the bucket was last empty, as if all callers had waited for their tokens.
    empty_at: Mutex<Option<Instant>>,
}

impl Bucket {
    pub(crate) fn new(rate: Rate) -> Self {
        let is_limited = rate.per_second.is_finite() && rate.per_second > 0.0;
        let each = is_limited.then(|| Duration::from_secs_f64(1.0 / rate.per_second.max(0.001)));
        Self { each, burst: rate.burst.max(1), empty_at: Mutex::default() }
    }

    /// Waits for a token. A token whose wait is dropped is lost.
    pub(crate) async fn take(&self) {
        let wait = self.each.map(|each| self.reserve(each, Instant::now()));
        if let Some(wait) = wait.filter(|wait| !wait.is_zero()) {
            sleep(wait).await;
        }
    }

    /// How long until the next token is available.
    fn reserve(&self, each: Duration, now: Instant) -> Duration {
        let mut empty_at = self.empty_at.lock().unwrap_or_else(PoisonError::into_inner);
        let full = each * self.burst;
        // The tokens produced since the bucket was empty, up to its size.
        let begun = empty_at.map_or(now.checked_sub(full), |at| {
            Some(now.checked_sub(full).map_or(at, |oldest| at.max(oldest)))
        });
        let begun = begun.unwrap_or(now);
        let taken = begun + each;
        *empty_at = Some(taken);
        taken.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn calls_keep_to_the_rate_after_a_burst() {
        let bucket = Bucket::new(Rate { per_second: 20.0, burst: 30 });
        sleep(Duration::from_secs(100)).await;
        let begun = Instant::now();
        for _ in 0..30 {
            bucket.take().await;
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        for _ in 0..100 {
            bucket.take().await;
        }
        let took = begun.elapsed();
        assert!(
            took >= Duration::from_millis(4990) && took <= Duration::from_millis(5200),
            "{took:?}"
        );
        sleep(Duration::from_millis(500)).await;
        let begun = Instant::now();
        for _ in 0..10 {
            bucket.take().await;
        }
        assert!(begun.elapsed() <= Duration::from_millis(60), "tokens have accumulated");
    }

    #[tokio::test(start_paused = true)]
    async fn zero_rate_is_unlimited() {
        let bucket = Bucket::new(Rate { per_second: 0.0, burst: 0 });
        let begun = Instant::now();
        for _ in 0..1000 {
            bucket.take().await;
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
