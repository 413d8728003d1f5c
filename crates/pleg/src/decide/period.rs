//! How long a relist may wait.

use std::time::Duration;

/// A quiet node is listed this many times more rarely than one on which something happens.
const MOST_QUIET: u32 = 5;

/// What is known of the time since the last relist began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// The runtime does not tell what happens, or could not be listed.
    Deaf,
    /// Something happened, or was found.
    Stirred,
    /// Nothing was heard of, and nothing was found.
    Quiet,
}

/// How long to wait for the next relist: `plain` while nothing is told, `told` while something happens.
/// What is lost of a stream is lost when much happens, so where nothing happened at all a relist waits twice
/// as long as the `last` one did, up to five times `told`.
pub fn relist_period(
    since: Since,
    (plain, told): (Duration, Duration),
    last: Duration,
) -> Duration {
    match since {
        Since::Deaf => plain,
        Since::Stirred => told,
        Since::Quiet => last.saturating_mul(2).clamp(told, told.saturating_mul(MOST_QUIET)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_node_is_listed_ever_more_rarely_and_at_once_again_when_something_happens() {
        let seconds = Duration::from_secs;
        let periods = (seconds(1), seconds(60));
        let mut last = relist_period(Since::Stirred, periods, seconds(1));
        let mut waits = vec![last];
        for _ in 0..4 {
            last = relist_period(Since::Quiet, periods, last);
            waits.push(last);
        }
        assert_eq!(waits, [60, 120, 240, 300, 300].map(seconds));
        assert_eq!(relist_period(Since::Stirred, periods, last), seconds(60));
        assert_eq!(relist_period(Since::Deaf, periods, last), seconds(1));
        assert_eq!(relist_period(Since::Quiet, periods, seconds(1)), seconds(60), "first told");
    }
}
