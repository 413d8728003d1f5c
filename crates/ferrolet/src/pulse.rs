//! Whether the sync loop makes progress.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// The minimum time without progress that is unhealthy.
const LEAST_PULSE: Duration = Duration::from_mins(5);

/// The time of the loop's last iteration. The loop writes it.
#[derive(Debug, Clone)]
pub(crate) struct Pulse {
    beat: watch::Sender<Instant>,
    /// The maximum age of that time.
    limit: Duration,
}

impl Pulse {
    /// A pulse that also allows for the start of the loop.
    pub(crate) fn new(resync: Duration) -> Self {
        let limit = resync.saturating_mul(2).max(LEAST_PULSE);
        Self { beat: watch::Sender::new(Instant::now()), limit }
    }

    pub(crate) fn beat(&self) {
        self.beat.send_replace(Instant::now());
    }

    /// Checks that the loop made progress recently.
    pub(crate) fn check(&self, now: Instant) -> Result<(), String> {
        let since = now.saturating_duration_since(*self.beat.borrow());
        if since > self.limit {
            return Err(format!("the sync loop has not turned for {since:?}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: WRK-24
    #[tokio::test(start_paused = true)]
    async fn stalled_loop_is_unhealthy_after_two_resyncs_and_five_minutes() {
        for (resync, limit) in [(10, 300), (60, 300), (300, 600)] {
            let pulse = Pulse::new(Duration::from_secs(resync));
            let start = Instant::now();
            let after = |seconds| start + Duration::from_secs(seconds);
            assert_eq!(pulse.check(after(limit)), Ok(()));
            let stuck = pulse.check(after(limit + 1)).unwrap_err();
            assert_eq!(stuck, format!("the sync loop has not turned for {}s", limit + 1));
            tokio::time::advance(Duration::from_secs(2)).await;
            pulse.beat();
            assert_eq!(pulse.check(after(limit + 1)), Ok(()), "it turned");
        }
    }
}
