//! How long to wait for what.

use std::time::Duration;

/// How often a call is made again at once.
pub const TRIES: usize = 5;

const FIRST_STEP: Duration = Duration::from_millis(100);
const LONGEST_STEP: Duration = Duration::from_secs(7);

/// How long to wait before a registration or a lease is tried for the so-manieth time again: ever twice
/// as long, up to seven seconds.
pub fn again_after(failures: u32) -> Duration {
    let factor = 2_u32.saturating_pow(failures.saturating_sub(1));
    FIRST_STEP.saturating_mul(factor).min(LONGEST_STEP)
}

/// A period that is longer by up to a twenty-fifth, so that not all nodes call at the same moment.
/// `fraction` is any number from zero to one.
pub fn jittered(period: Duration, fraction: f64) -> Duration {
    period.mul_f64(1.0 + 0.04 * fraction.clamp(0.0, 1.0))
}

/// When the runtime is asked again how it is: at once while the node starts, then now and then, and more
/// often while something is wrong.
pub fn next_check(since_start: Duration, was_ready: bool, is_ready: bool) -> Duration {
    let starting = !was_ready && since_start < Duration::from_mins(2);
    match (is_ready, starting) {
        (true, _) => Duration::from_secs(10),
        (false, true) if since_start < Duration::from_secs(10) => Duration::from_millis(100),
        (false, true) => Duration::from_secs(1),
        (false, false) => Duration::from_secs(5),
    }
}
