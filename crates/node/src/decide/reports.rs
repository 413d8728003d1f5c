//! When the status is told although nothing changed.

use std::time::Duration;

/// When the status was told, and when it is told again at the latest. Times count from the start of the
/// agent.
#[derive(Debug, Clone)]
pub struct Reports {
    frequency: Duration,
    last: Option<Report>,
}

#[derive(Debug, Clone, Copy)]
struct Report {
    at: Duration,
    /// How long after it the next one is due.
    next: Duration,
}

impl Reports {
    /// Nothing was told yet.
    pub fn new(frequency: Duration) -> Self {
        Self { frequency, last: None }
    }

    /// Whether the status is worth telling: it is another, or was told too long ago.
    pub fn is_worth(&self, is_change: bool, now: Duration) -> bool {
        is_change || self.last.is_none_or(|last| now.saturating_sub(last.at) >= last.next)
    }

    /// The status was told. `fraction` is any number from zero to one: after a change the next report
    /// comes at half to one and a half of its time, so that the nodes of a cluster drift apart.
    pub fn told(&mut self, is_change: bool, now: Duration, fraction: f64) {
        let scattered = is_change || self.last.is_none();
        let next = if scattered {
            self.frequency.mul_f64(0.5 + fraction.clamp(0.0, 1.0))
        } else {
            self.frequency
        };
        self.last = Some(Report { at: now, next });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: NODE-7
    #[test]
    fn a_change_is_told_and_the_next_report_comes_at_half_to_one_and_a_half_of_its_time() {
        let seconds = Duration::from_secs;
        let mut reports = Reports::new(seconds(300));
        assert!(reports.is_worth(false, seconds(0)), "nothing was told yet");
        for (fraction, next) in [(0.0, 150), (0.5, 300), (1.0, 450)] {
            reports.told(true, seconds(1000), fraction);
            assert!(reports.is_worth(true, seconds(1000)), "a change always is");
            assert!(!reports.is_worth(false, seconds(999 + next)));
            assert!(reports.is_worth(false, seconds(1000 + next)));
        }
        reports.told(false, seconds(2000), 0.0);
        assert!(!reports.is_worth(false, seconds(2299)) && reports.is_worth(false, seconds(2300)));
    }
}
