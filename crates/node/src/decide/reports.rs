//! Decides when the status is written without a change.

use std::time::Duration;

/// When the status was written, and when it is due again. Times are relative to the start of the
/// agent.
#[derive(Debug, Clone)]
pub struct Reports {
    frequency: Duration,
    last: Option<Report>,
}

#[derive(Debug, Clone, Copy)]
struct Report {
    at: Duration,
    /// The time until the next report is due.
    next: Duration,
}

impl Reports {
    /// Nothing was written yet.
    pub fn new(frequency: Duration) -> Self {
        Self { frequency, last: None }
    }

    /// Whether the status must be written: it changed, or was written too long ago.
    pub fn is_due(&self, is_change: bool, now: Duration) -> bool {
        is_change || self.last.is_none_or(|last| now.saturating_sub(last.at) >= last.next)
    }

    /// Records that the status was written. `fraction` is a number from zero to one: after a change the next report
    /// is due after 0.5 to 1.5 periods, so that the nodes of a cluster spread out.
    pub fn record(&mut self, is_change: bool, now: Duration, fraction: f64) {
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
    fn change_is_written_and_the_next_report_is_spread_by_half_a_period() {
        let seconds = Duration::from_secs;
        let mut reports = Reports::new(seconds(300));
        assert!(reports.is_due(false, seconds(0)), "nothing was written yet");
        for (fraction, next) in [(0.0, 150), (0.5, 300), (1.0, 450)] {
            reports.record(true, seconds(1000), fraction);
            assert!(reports.is_due(true, seconds(1000)), "a change is always due");
            assert!(!reports.is_due(false, seconds(999 + next)));
            assert!(reports.is_due(false, seconds(1000 + next)));
        }
        reports.record(false, seconds(2000), 0.0);
        assert!(!reports.is_due(false, seconds(2299)) && reports.is_due(false, seconds(2300)));
    }
}
