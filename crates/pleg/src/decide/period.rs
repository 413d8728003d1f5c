//! How long a relist may wait, and whether the runtime's event stream can be relied on.

use std::time::Duration;

/// The wait before the next relist: `with_hints` while the event stream reports changes, else `plain`.
/// With hints a relist only finds lost events, so this is also the longest delay of a lost event.
pub fn relist_period(hints: bool, plain: Duration, with_hints: Duration) -> Duration {
    if hints { with_hints } else { plain }
}

/// How late the event of a change may arrive after a relist found the change.
const GRACE: Duration = Duration::from_secs(2);

/// Whether an open event stream also reports changes. On an idle node it rightly sends nothing. When a relist finds a
/// change, its event must have been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StreamTrust {
    /// No missing event was found.
    #[default]
    Trusted,
    /// A relist found a change without an event: an event must arrive until this time since the start.
    Checking(Duration),
    /// No event arrived. The runtime is listed as if there were no stream, until an event arrives.
    Silent,
}

impl StreamTrust {
    pub fn is_trusted(self) -> bool {
        self != Self::Silent
    }

    /// An event arrived: the stream works.
    #[must_use]
    pub fn event(self) -> Self {
        Self::Trusted
    }

    /// A relist found a change without an event.
    #[must_use]
    pub fn unannounced_change(self, now: Duration) -> Self {
        match self {
            Self::Trusted => Self::Checking(now + GRACE),
            other => other,
        }
    }

    /// When to check whether an event has arrived.
    pub fn deadline(self) -> Option<Duration> {
        match self {
            Self::Checking(until) => Some(until),
            Self::Trusted | Self::Silent => None,
        }
    }

    /// Time has passed.
    #[must_use]
    pub fn at(self, now: Duration) -> Self {
        match self {
            Self::Checking(until) if now >= until => Self::Silent,
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: PLEG-40, PLEG-42
    #[test]
    fn relist_waits_longer_only_while_hints_arrive() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_mins(1));
        assert_eq!(relist_period(true, second, minute), minute);
        assert_eq!(relist_period(false, second, minute), second);
    }

    // behaviour: PLEG-54
    #[test]
    fn stream_is_silent_when_no_event_follows_an_unannounced_change() {
        let now = Duration::from_secs(100);
        let trusted = StreamTrust::default();
        assert_eq!(trusted.at(now + Duration::from_hours(9)), trusted, "an idle node");
        let checking = trusted.unannounced_change(now);
        assert_eq!(checking.deadline(), Some(now + GRACE));
        assert!(checking.is_trusted());
        let again = checking.unannounced_change(now + GRACE / 2);
        assert_eq!(again, checking, "the first change counts");
        assert_eq!(checking.at(now + GRACE / 2), checking);
        assert_eq!(checking.event(), StreamTrust::Trusted);
        let silent = checking.at(now + GRACE);
        assert!(!silent.is_trusted());
        assert_eq!(silent.unannounced_change(now), silent);
        assert_eq!(silent.event(), StreamTrust::Trusted);
    }
}
