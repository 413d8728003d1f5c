//! Waiting for a value.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// The pause for a transient state: a test with longer pauses could miss it.
pub const OFTEN: Duration = Duration::from_millis(20);

/// The first pause of [`until`]. Each pause is a quarter longer than the one before it.
const FIRST: Duration = Duration::from_millis(10);
/// The longest pause of [`until`], reached after about half a second.
const LONGEST: Duration = Duration::from_millis(100);

/// Polls until `look` returns a value; the error after `time` has the last observation. The pauses grow, so that a long
/// wait costs little.
pub fn until<T>(
    what: &str,
    time: Duration,
    look: impl FnMut() -> Result<Result<T, String>>,
) -> Result<T> {
    let pauses = std::iter::successors(Some(FIRST), |pause| Some(LONGEST.min(*pause * 5 / 4)));
    poll(pauses, what, time, look)
}

/// Like `until`, with a constant pause: longer for an expensive check, [`OFTEN`] for a transient state.
pub fn every<T>(
    pause: Duration,
    what: &str,
    time: Duration,
    look: impl FnMut() -> Result<Result<T, String>>,
) -> Result<T> {
    poll(std::iter::repeat(pause), what, time, look)
}

fn poll<T>(
    pauses: impl Iterator<Item = Duration>,
    what: &str,
    time: Duration,
    mut look: impl FnMut() -> Result<Result<T, String>>,
) -> Result<T> {
    let end = Instant::now() + time;
    let mut seen = String::new();
    for pause in pauses {
        seen = match look()? {
            Ok(value) => return Ok(value),
            Err(seen) => seen,
        };
        if Instant::now() > end {
            break;
        }
        std::thread::sleep(pause);
    }
    bail!("{what}: not within {time:?}; last seen: {seen}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn until_increases_its_pauses() {
        let mut times = Vec::new();
        let found = until("a value", Duration::from_secs(30), || {
            times.push(Instant::now());
            Ok(if times.len() == 14 { Ok(()) } else { Err(String::new()) })
        });
        found.unwrap();
        let pause = |index: usize| times[index + 1] - times[index];
        assert!(pause(0) >= FIRST && pause(12) >= LONGEST, "{times:?}");
    }

    #[test]
    fn timeout_error_has_the_last_observation() {
        let mut looks = 0;
        let error = every(Duration::from_millis(1), "a value", Duration::ZERO, || {
            looks += 1;
            Ok(Err::<(), _>(format!("look {looks}")))
        });
        let text = error.unwrap_err().to_string();
        assert!(text.starts_with("a value: not within 0ns; last seen: look "), "{text}");
    }
}
