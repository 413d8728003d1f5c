//! How long to wait until a disk has released what was removed: runtimes delete snapshots after they answer.

use std::time::Duration;

/// The longest wait.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The delay between two measurements.
const PAUSE: Duration = Duration::from_millis(500);

/// The measurements after a removal.
#[derive(Debug, Clone, Copy)]
pub struct Settling {
    /// What was available before the removal.
    before: i64,
    /// What was available at the last measurement.
    last: i64,
}

impl Settling {
    /// A removal that began with this much available.
    pub fn new(before: i64) -> Self {
        Self { before, last: before }
    }

    /// The delay before the next measurement, given one at this time after the removal; `None` if it was the last:
    /// what is available has grown and stopped growing, or the patience is over.
    pub fn measured(&mut self, available: i64, since_removal: Duration) -> Option<Duration> {
        let rests = self.last > self.before && available <= self.last;
        self.last = available;
        let left = PATIENCE.checked_sub(since_removal).filter(|left| !left.is_zero());
        if rests { None } else { left.map(|left| left.min(PAUSE)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many measurements are made, and for how long.
    fn measurements(available: impl Fn(Duration) -> i64) -> (usize, Duration) {
        let (mut settling, mut count, mut now) = (Settling::new(10), 0, Duration::ZERO);
        loop {
            count += 1;
            match settling.measured(available(now), now) {
                Some(wait) => now += wait,
                None => return (count, now),
            }
            assert!(count < 100, "never settles");
        }
    }

    // behaviour: EVI-36
    #[test]
    fn wait_ends_when_available_space_stops_growing() {
        assert_eq!(measurements(|_| 30), (2, PAUSE));
        let late = |now: Duration| if now < Duration::from_secs(2) { 10 } else { 30 };
        assert_eq!(measurements(late).1, Duration::from_millis(2500));
        assert_eq!(measurements(|_| 10).1, PATIENCE);
        assert_eq!(measurements(|_| 5).1, PATIENCE);
    }
}
