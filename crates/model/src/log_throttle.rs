//! Throttles log messages about a failure that repeats: logged immediately, then at growing
//! intervals, and once when it is over.

use std::time::{Duration, Instant};

/// The pause after the first message; each further one is twice as long.
const FIRST: Duration = Duration::from_secs(10);
/// The longest pause.
const LONGEST: Duration = Duration::from_mins(10);

/// Decides which failures of one operation are logged.
#[derive(Debug, Clone, Default)]
pub struct LogThrottle {
    lasting: Option<Lasting>,
}

#[derive(Debug, Clone)]
struct Lasting {
    since: Instant,
    logged: Instant,
    pause: Duration,
}

impl LogThrottle {
    /// Notes a failure. Whether to log it.
    pub fn failed(&mut self, now: Instant) -> bool {
        let Some(lasting) = &mut self.lasting else {
            self.lasting = Some(Lasting { since: now, logged: now, pause: FIRST });
            return true;
        };
        let is_time = now.saturating_duration_since(lasting.logged) >= lasting.pause;
        if is_time {
            lasting.logged = now;
            lasting.pause = (lasting.pause * 2).min(LONGEST);
        }
        is_time
    }

    /// Notes a success. How long the operation failed before, if it did.
    pub fn recovered(&mut self, now: Instant) -> Option<Duration> {
        let lasting = self.lasting.take()?;
        Some(now.saturating_duration_since(lasting.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "there is no other way to have an instant")]
    fn failures_are_logged_immediately_then_with_growing_pauses() {
        let begin = Instant::now();
        let mut throttle = LogThrottle::default();
        assert_eq!(throttle.recovered(begin), None);
        let at = |second: u64| begin + Duration::from_secs(second);
        let logged: Vec<u64> = (0..2000).filter(|second| throttle.failed(at(*second))).collect();
        assert_eq!(logged, [0, 10, 30, 70, 150, 310, 630, 1230, 1830]);
        assert_eq!(throttle.recovered(at(2000)), Some(Duration::from_secs(2000)));
        assert_eq!(throttle.recovered(at(2001)), None);
        assert!(throttle.failed(at(2002)), "a new failure is logged at once");
    }
}
