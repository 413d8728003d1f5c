//! Waiting for a value.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long to look again.
const PAUSE: Duration = Duration::from_millis(20);

/// Looks until `look` gives a value; says what was seen last when the time is over.
pub fn until<T>(
    what: &str,
    time: Duration,
    look: impl FnMut() -> Result<Result<T, String>>,
) -> Result<T> {
    every(PAUSE, what, time, look)
}

/// The same, with another pause: for a look that costs more.
pub fn every<T>(
    pause: Duration,
    what: &str,
    time: Duration,
    mut look: impl FnMut() -> Result<Result<T, String>>,
) -> Result<T> {
    let end = Instant::now() + time;
    loop {
        let seen = match look()? {
            Ok(value) => return Ok(value),
            Err(seen) => seen,
        };
        if Instant::now() > end {
            bail!("{what}: not within {time:?}; last seen: {seen}");
        }
        std::thread::sleep(pause);
    }
}
