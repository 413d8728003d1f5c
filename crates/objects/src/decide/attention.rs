//! Whether an object is watched or read again, by its last use and its last read. Times count from any fixed
//! moment.

use std::time::Duration;

/// Whether a watched object is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// It is.
    Yes,
    /// It is not idle; check again at this time.
    LookAt(Duration),
}

/// Whether an object is idle: its last use is more than `limit` ago. An object whose first version has not
/// arrived is not idle: its watch would have to start again.
pub fn idle(requested: Duration, is_known: bool, limit: Duration, now: Duration) -> Idle {
    let until = requested.saturating_add(limit);
    if until > now {
        Idle::LookAt(until)
    } else if is_known {
        Idle::Yes
    } else {
        Idle::LookAt(now.saturating_add(limit))
    }
}

/// Whether a version that was read at a time is still fresh.
pub fn is_fresh(read: Option<Duration>, time_to_live: Duration, now: Duration) -> bool {
    read.is_some_and(|read| now.saturating_sub(read) < time_to_live)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    // behaviour: OBJ-13
    #[test]
    fn known_object_is_idle_when_unused_for_the_limit() {
        let rows = [
            (10, true, 309, Idle::LookAt(seconds(310))),
            (10, true, 310, Idle::Yes),
            (10, false, 310, Idle::LookAt(seconds(610))),
            (310, false, 10, Idle::LookAt(seconds(610))),
        ];
        for (requested, is_known, now, expected) in rows {
            let found = idle(seconds(requested), is_known, seconds(300), seconds(now));
            assert_eq!(found, expected, "{requested} {is_known} {now}");
        }
    }

    // behaviour: OBJ-15
    #[test]
    fn read_version_is_fresh_for_its_time_to_live() {
        let rows = [(None, 60, 0, false), (Some(5), 60, 64, true), (Some(5), 60, 65, false)];
        for (read, time_to_live, now, expected) in rows {
            let found = is_fresh(read.map(seconds), seconds(time_to_live), seconds(now));
            assert_eq!(found, expected, "{read:?} {now}");
        }
        assert!(
            !is_fresh(Some(seconds(5)), Duration::ZERO, seconds(5)),
            "never with a TTL of zero"
        );
    }
}
