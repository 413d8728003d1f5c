//! When to look at a log next: how fast it grows says when it may reach its limit.

use std::time::Duration;

/// The shortest time from one look at a log to the next.
pub const SHORTEST: Duration = Duration::from_millis(200);

/// The shortest time from one rotation of a log to the next: names of rotated files are seconds.
pub const ROTATION_GAP: Duration = Duration::from_secs(1);

/// When to look at a log again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextLook {
    /// It has reached its limit: rotate it.
    Rotate,
    /// After this time.
    After(Duration),
    /// When it is written to: it is quiet.
    OnWrite,
}

/// The limits of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How large it may become; none if it is not rotated.
    pub size: Option<u64>,
    /// The longest time from one look to the next while it grows.
    pub interval: Duration,
}

/// A look at a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// How large it is.
    pub size: u64,
    /// The time since the look before.
    pub elapsed: Duration,
    /// The time until it may be rotated again.
    pub may_rotate_in: Duration,
}

/// How a log grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth {
    /// How large it was at the last look.
    size: u64,
    /// Bytes per second: the fastest rate that was seen, halved at each look that finds it slower.
    rate: u64,
    /// The time between the last two looks, as it was planned.
    delay: Duration,
}

impl Growth {
    /// A quiet log of this size.
    pub fn quiet(size: u64) -> Self {
        Self { size, rate: 0, delay: Duration::MAX }
    }

    /// How large it was at the last look.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// A quiet log was written to. How fast it grows shows soon.
    pub fn written(&mut self) -> NextLook {
        self.delay = SHORTEST;
        NextLook::After(SHORTEST)
    }

    /// A rotation left a live file of this size. The log grows as fast as before.
    pub fn rotated(&mut self, size: u64, limits: Limits) -> NextLook {
        self.size = size;
        if self.rate == 0 {
            // It was full when it was first seen.
            self.delay = SHORTEST;
        }
        self.next(ROTATION_GAP, limits)
    }

    /// The log was looked at.
    pub fn looked(&mut self, look: Look, limits: Limits) -> NextLook {
        // A file that shrank is another one, or was cut.
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

    /// The next look, by the rate.
    fn next(&mut self, may_rotate_in: Duration, limits: Limits) -> NextLook {
        let left = limits.size.map(|limit| limit.saturating_sub(self.size));
        let full_in = left.and_then(|left| time_for(left, self.rate)).unwrap_or(limits.interval);
        // A log that was fast may become fast again, so looks become rarer step by step.
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

/// How long it takes to write so many bytes; for ever at no rate.
fn time_for(bytes: u64, rate: u64) -> Option<Duration> {
    let millis = (u128::from(bytes) * 1000).checked_div(u128::from(rate))?;
    Some(Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)))
}

#[cfg(test)]
#[path = "growth_tests.rs"]
mod tests;
