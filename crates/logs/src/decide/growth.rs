//! When to check a log next: its growth rate predicts when it may reach its limit.

use std::time::Duration;

/// The shortest interval between checks of a log.
pub const SHORTEST: Duration = Duration::from_millis(200);

/// The shortest interval between rotations of a log: names of rotated files have second precision.
pub const ROTATION_GAP: Duration = Duration::from_secs(1);

/// When to check a log again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextLook {
    /// Now: it has reached its limit and is rotated.
    Rotate,
    /// After this time.
    After(Duration),
    /// At the next write: it is quiet.
    OnWrite,
}

/// The limits of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The size at which it is rotated; `None` if it is not rotated.
    pub size: Option<u64>,
    /// The longest interval between checks while it grows.
    pub interval: Duration,
}

/// A check of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogCheck {
    /// Its size.
    pub size: u64,
    /// The time since the last check.
    pub elapsed: Duration,
    /// The time until the next allowed rotation.
    pub may_rotate_in: Duration,
}

/// The growth of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth {
    /// Its size at the last check.
    size: u64,
    /// Bytes per second: the highest observed rate, halved at each slower check.
    rate: u64,
    /// The planned interval between the last two checks.
    delay: Duration,
}

impl Growth {
    /// A quiet log of this size.
    pub fn quiet(size: u64) -> Self {
        Self { size, rate: 0, delay: Duration::MAX }
    }

    /// Its size at the last check.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// A quiet log was written. The next check shows its rate.
    pub fn written(&mut self) -> NextLook {
        self.delay = SHORTEST;
        NextLook::After(SHORTEST)
    }

    /// A rotation left a live file of this size. The log keeps its growth rate.
    pub fn rotated(&mut self, size: u64, limits: Limits) -> NextLook {
        self.size = size;
        if self.rate == 0 {
            // It was full at its first check.
            self.delay = SHORTEST;
        }
        self.next(ROTATION_GAP, limits)
    }

    /// Records a check.
    pub fn looked(&mut self, look: LogCheck, limits: Limits) -> NextLook {
        // A file that shrank was replaced or truncated.
        let grown = if look.size < self.size { look.size } else { look.size - self.size };
        self.size = look.size;
        self.rate = per_second(grown, look.elapsed).max(self.rate / 2);
        let is_full = limits.size.is_some_and(|limit| look.size >= limit);
        if is_full && look.may_rotate_in.is_zero() {
            return NextLook::Rotate;
        }
        if grown == 0 && !is_full && self.delay >= limits.interval {
            return NextLook::OnWrite;
        }
        self.next(look.may_rotate_in, limits)
    }

    /// The next check, from the rate.
    fn next(&mut self, may_rotate_in: Duration, limits: Limits) -> NextLook {
        let left = limits.size.map(|limit| limit.saturating_sub(self.size));
        let full_in = left.and_then(|left| time_for(left, self.rate)).unwrap_or(limits.interval);
        // A log that was fast may become fast again, so the interval grows step by step.
        let delay = full_in.min(self.delay.saturating_mul(2)).min(limits.interval);
        let delay = delay.max(SHORTEST).max(may_rotate_in);
        self.delay = delay;
        NextLook::After(delay)
    }
}

/// Bytes per second, rounded up.
fn per_second(bytes: u64, elapsed: Duration) -> u64 {
    let nanos = elapsed.as_nanos().max(1);
    let rate = (u128::from(bytes) * 1_000_000_000).div_ceil(nanos);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// How long it takes to write this many bytes; `None` at rate 0.
fn time_for(bytes: u64, rate: u64) -> Option<Duration> {
    let millis = (u128::from(bytes) * 1000).checked_div(u128::from(rate))?;
    Some(Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)))
}

#[cfg(test)]
#[path = "growth_tests.rs"]
mod tests;
