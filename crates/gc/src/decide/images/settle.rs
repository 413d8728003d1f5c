//! Detects whether a disk has released the space of a removed image. Runtimes and file systems may do so after
//! they answer.

use std::time::Duration;

/// How long to wait for it.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The delay between two measurements.
const PAUSE: Duration = Duration::from_millis(250);

/// Measurements after a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// The available space now.
    pub available: u64,
    /// The largest available space since the removal: other processes may have used some.
    pub most: u64,
}

impl From<u64> for Shown {
    fn from(available: u64) -> Self {
        Self { available, most: available }
    }
}

/// Measures a disk after a removal.
#[derive(Debug, Clone)]
pub struct Settling {
    before: u64,
    /// The available space that ends the wait.
    enough: u64,
    shown: Option<Shown>,
}

impl Settling {
    /// After a removal that started with `before` bytes available; `enough` ends the wait.
    pub fn new(before: u64, enough: u64) -> Self {
        Self { before, enough, shown: None }
    }

    /// The measurements so far; `None` before the first.
    pub fn shown(&self) -> Option<Shown> {
        self.shown
    }

    /// Records a measurement at this time after the removal. Returns the delay before the next; `None` after
    /// the last: there is enough space, the space no longer grows, or the time limit is over.
    pub fn measured(&mut self, available: u64, since_removal: Duration) -> Option<Duration> {
        let rests = self
            .shown
            .is_some_and(|shown| shown.most > self.before && available <= shown.available);
        let most = self.shown.map_or(available, |shown| shown.most.max(available));
        self.shown = Some(Shown { available, most });
        let left = PATIENCE.checked_sub(since_removal).filter(|left| !left.is_zero());
        if available >= self.enough || rests { None } else { left.map(|left| left.min(PAUSE)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of measurements for these amounts, and their total duration.
    fn looks(before: u64, enough: u64, shown: impl Fn(Duration) -> u64) -> (usize, Duration) {
        let mut settling = Settling::new(before, enough);
        let (mut looks, mut now) = (0, Duration::ZERO);
        loop {
            looks += 1;
            match settling.measured(shown(now), now) {
                Some(wait) => now += wait,
                None => return (looks, now),
            }
            assert!(looks < 100, "never settles");
        }
    }

    // behaviour: IMG-41
    #[test]
    fn disk_has_settled_when_available_space_stops_growing() {
        let millis = Duration::from_millis;
        assert_eq!(looks(10, 100, |_| 30), (2, millis(250)));
        let grows = |now: Duration| 10 + u64::try_from(now.as_millis() / 500).unwrap().min(4);
        assert_eq!(looks(10, 100, grows), (4, millis(750)));
        assert_eq!(looks(10, 30, |_| 30), (1, Duration::ZERO));
        assert_eq!(looks(10, 100, |_| 10).1, PATIENCE);
        assert_eq!(looks(10, 100, |_| 5).1, PATIENCE);
        // Another process uses the space again.
        let falls = |now: Duration| 30 - u64::try_from(now.as_millis() / 50).unwrap();
        assert_eq!(looks(10, 100, falls), (2, millis(250)));
    }

    // behaviour: IMG-60
    #[test]
    fn largest_available_space_is_kept() {
        let mut settling = Settling::new(10, 100);
        assert_eq!(settling.shown(), None);
        for (millis, available) in [(0, 10), (250, 30), (500, 5)] {
            settling.measured(available, Duration::from_millis(millis));
        }
        assert_eq!(settling.shown(), Some(Shown { available: 5, most: 30 }));
    }
}
