//! Writing log lines at a steady rate.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use crate::signal::{ENDING, Inbox, Signal};
use crate::wait::after;

/// The largest number of lines between two checks for signals.
const BATCH: u64 = 1000;

/// What to write, and how fast.
#[derive(Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) pace: Pace,
    /// The number of lines; without it, lines until a signal.
    pub(crate) count: Option<u64>,
    pub(crate) stream: Stream,
    /// Bytes of a line with its line feed. A line whose number needs more is longer.
    pub(crate) size: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pace {
    PerSecond(f64),
    Unlimited,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Pace {
    /// The due time of line `number`, from the start; counted from zero, so the first is due at once.
    fn due(self, number: u64) -> Duration {
        match self {
            #[expect(
                clippy::cast_precision_loss,
                reason = "exact for longer than any container lives"
            )]
            Self::PerSecond(rate) => {
                Duration::try_from_secs_f64(number as f64 / rate).unwrap_or(Duration::MAX)
            }
            Self::Unlimited => Duration::ZERO,
        }
    }
}

/// Writes lines up to the count or until a signal.
///
/// Each line has a due time from the start, so that a late one does not delay later ones. Lines that are due together
/// are written together.
pub(crate) fn run(settings: &Settings) -> io::Result<i32> {
    let inbox = Inbox::catching(&BTreeSet::from(ENDING))?;
    let mut out: Box<dyn Write> = match settings.stream {
        Stream::Stdout => Box::new(io::stdout().lock()),
        Stream::Stderr => Box::new(io::stderr().lock()),
    };
    let start = Instant::now();
    let count = settings.count.unwrap_or(u64::MAX);
    let mut written = 0;
    while written < count {
        let due = start.checked_add(settings.pace.due(written));
        if let Some(signal) = inbox.next(due.or_else(|| after(Duration::from_hours(24)))) {
            return Ok(Signal::exit_code(signal));
        }
        let elapsed = start.elapsed();
        let last = count.min(written.saturating_add(BATCH));
        let mut lines = Vec::new();
        while written < last && settings.pace.due(written) <= elapsed {
            lines.extend(line(written, settings.size));
            written += 1;
        }
        out.write_all(&lines)?;
        out.flush()?;
    }
    Ok(0)
}

/// A line: its number, then dots up to the size, then a line feed.
fn line(number: u64, size: usize) -> Vec<u8> {
    let mut line = format!("{number} ").into_bytes();
    let content = size.saturating_sub(1);
    if line.len() > content {
        line.pop();
    } else {
        line.resize(content, b'.');
    }
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_the_requested_size() {
        assert_eq!(line(12, 8), b"12 ....\n");
        for size in 3..200 {
            assert_eq!(line(12, size).len(), size, "{size}");
        }
    }

    #[test]
    fn line_is_never_too_short_for_its_number() {
        assert_eq!(line(1234, 0), b"1234\n");
        assert_eq!(line(1234, 3), b"1234\n");
        assert_eq!(line(1234, 6), b"1234 \n");
    }

    #[test]
    fn lines_are_spread_evenly_over_time() {
        let pace = Pace::PerSecond(4.0);
        let due: Vec<_> = (0..4).map(|number| pace.due(number).as_millis()).collect();
        assert_eq!(due, [0, 250, 500, 750]);
    }

    #[test]
    fn unlimited_rate_never_waits() {
        assert_eq!(Pace::Unlimited.due(u64::MAX), Duration::ZERO);
    }
}
