//! The saved state of a shutdown, in upstream's format.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// When the last shutdown began and ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SavedState {
    /// Its start; none if there was none.
    pub start: Option<Timestamp>,
    /// The end of its last phase; none while it lasts, or if the agent was killed.
    pub end: Option<Timestamp>,
}

/// The file. Go writes its zero time for an absent one.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StateFile {
    start_time: Option<Timestamp>,
    end_time: Option<Timestamp>,
}

/// Go's zero time.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

impl SavedState {
    /// Reads the file.
    pub fn parse(content: &[u8]) -> Result<Self, serde_json::Error> {
        let StateFile { start_time, end_time } = serde_json::from_slice(content)?;
        let is_set = |time: &Timestamp| NO_TIME.parse().is_ok_and(|none: Timestamp| *time != none);
        Ok(Self { start: start_time.filter(is_set), end: end_time.filter(is_set) })
    }

    /// The content of the file.
    pub fn content(&self) -> Vec<u8> {
        let none = NO_TIME.parse().ok();
        let file = StateFile { start_time: self.start.or(none), end_time: self.end.or(none) };
        serde_json::to_vec(&file).unwrap_or_default()
    }
}

/// How much of a shutdown that lasts was spent by earlier agents. A shutdown that began longer ago than it may take
/// was another one.
pub fn elapsed(saved: SavedState, total: Duration, now: Timestamp) -> Duration {
    let SavedState { start: Some(start), end: None } = saved else { return Duration::ZERO };
    let passed = Duration::try_from(now.duration_since(start)).unwrap_or_default();
    if passed < total { passed } else { Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Option<Timestamp> {
        Timestamp::from_second(second).ok()
    }

    // behaviour: SHD-9
    #[test]
    fn state_has_upstreams_format() {
        let state = SavedState { start: at(1_700_000_000), end: None };
        let text = r#"{"startTime":"2023-11-14T22:13:20Z","endTime":"0001-01-01T00:00:00Z"}"#;
        assert_eq!(String::from_utf8(state.content()).unwrap(), text);
        assert_eq!(SavedState::parse(text.as_bytes()).unwrap(), state);
        let go = r#"{"startTime":"2023-11-14T23:13:20.5+01:00","endTime":"2023-11-14T22:13:21Z"}"#;
        let read = SavedState::parse(go.as_bytes()).unwrap();
        let start = Timestamp::from_millisecond(1_700_000_000_500).ok();
        assert_eq!(read, SavedState { start, end: at(1_700_000_001) });
        assert_eq!(SavedState::parse(&read.content()).unwrap(), read);
        assert!(SavedState::parse(b"{").is_err());
    }

    // behaviour: SHD-10
    #[test]
    fn only_a_shutdown_that_may_still_last_has_spent_time() {
        let (total, now) = (Duration::from_secs(30), Timestamp::from_second(100).unwrap());
        let rows = [
            (None, None, 0),
            (at(90), None, 10),
            (at(71), None, 29),
            (at(70), None, 0),
            (at(110), None, 0),
            (at(90), at(95), 0),
        ];
        for (start, end, expected) in rows {
            let spent = elapsed(SavedState { start, end }, total, now);
            assert_eq!(spent, Duration::from_secs(expected), "{start:?} {end:?}");
        }
    }
}
