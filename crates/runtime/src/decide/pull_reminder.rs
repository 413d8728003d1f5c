//! The times of events about a pull that has not ended.

use std::time::Duration;

/// The first event of a pull that has not ended: the time after which containerd cancels a pull without progress.
const FIRST: Duration = Duration::from_mins(5);

/// When the next event is due, as time since the pod began to wait: 5, 10, 20, 40 minutes and so on. The CRI reports no
/// progress, so time is the only measure; it doubles so that a pull of hours makes a handful of events.
pub fn next_reminder(waited: Duration) -> Duration {
    let mut next = FIRST;
    while next <= waited {
        next = next.saturating_mul(2);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: PULL-12
    #[test]
    fn reminders_double_from_5_minutes() {
        let rows = [(0, 5), (4, 5), (5, 10), (9, 10), (10, 20), (39, 40), (40, 80)];
        for (waited, next) in rows {
            let waited = Duration::from_mins(waited);
            assert_eq!(next_reminder(waited), Duration::from_mins(next), "{waited:?}");
        }
    }
}
