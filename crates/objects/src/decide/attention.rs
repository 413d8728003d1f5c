//! Whether an object is followed, or read again: by when somebody asked for it and when it was read. Times
//! count from any one moment.

use std::time::Duration;

/// Whether nobody wants to know of an object that is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// Nobody does.
    Yes,
    /// To be looked at again at that time.
    LookAt(Duration),
}

/// Whether an object that somebody last asked for at a time is idle, where nobody asks for longer than
/// `limit`. What the server is about to tell is waited for: it would have to be asked again.
pub fn idle(asked: Duration, is_known: bool, limit: Duration, now: Duration) -> Idle {
    let until = asked.saturating_add(limit);
    if until > now {
        Idle::LookAt(until)
    } else if is_known {
        Idle::Yes
    } else {
        Idle::LookAt(now.saturating_add(limit))
    }
}

/// Whether what was read at a time is still good.
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
    fn an_object_is_idle_when_it_is_known_and_nobody_asked_for_long() {
        let rows = [
            (10, true, 309, Idle::LookAt(seconds(310))),
            (10, true, 310, Idle::Yes),
            (10, false, 310, Idle::LookAt(seconds(610))),
            (310, false, 10, Idle::LookAt(seconds(610))),
        ];
        for (asked, is_known, now, expected) in rows {
            let found = idle(seconds(asked), is_known, seconds(300), seconds(now));
            assert_eq!(found, expected, "{asked} {is_known} {now}");
        }
    }

    // behaviour: OBJ-15
    #[test]
    fn what_was_read_is_good_for_its_time() {
        let rows = [(None, 60, 0, false), (Some(5), 60, 64, true), (Some(5), 60, 65, false)];
        for (read, time_to_live, now, expected) in rows {
            let found = is_fresh(read.map(seconds), seconds(time_to_live), seconds(now));
            assert_eq!(found, expected, "{read:?} {now}");
        }
        assert!(
            !is_fresh(Some(seconds(5)), Duration::ZERO, seconds(5)),
            "never, for who wants that"
        );
    }
}
