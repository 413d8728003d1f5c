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
