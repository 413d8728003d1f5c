//! The time of day that moves with the async runtime's timers.

use std::time::Duration;

use jiff::Timestamp;
use model::ports::clock::WallClock;
use tokio::time::Instant;

/// An epoch plus the time that passed for the async runtime since the clock was created. With a paused runtime,
/// timestamps therefore move exactly when timers do.
#[derive(Debug, Clone)]
pub struct VirtualClock {
    epoch: Timestamp,
    start: Instant,
}

impl VirtualClock {
    /// A clock that starts now, on the first of January 2026.
    pub fn new() -> Self {
        let epoch = Timestamp::constant(1_767_225_600, 0);
        Self::starting_at(epoch)
    }

    /// A clock that starts now with the given time of day.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { epoch, start: Instant::now() }
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl WallClock for VirtualClock {
    fn now(&self) -> Timestamp {
        self.epoch + self.start.elapsed()
    }
}

/// The time until `then`; zero when it has passed.
pub(crate) fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn timestamps_move_with_the_timers() {
        let clock = VirtualClock::new();
        let before = clock.now();
        assert_eq!(before.to_string(), "2026-01-01T00:00:00Z");
        tokio::time::sleep(Duration::from_secs(90)).await;
        assert_eq!(clock.now(), before + Duration::from_secs(90));
    }

    #[test]
    fn time_until_a_past_moment_is_zero() {
        let now = Timestamp::constant(10, 0);
        assert_eq!(until(now, Timestamp::constant(4, 0)), Duration::ZERO);
        assert_eq!(until(now, Timestamp::constant(12, 0)), Duration::from_secs(2));
    }
}
