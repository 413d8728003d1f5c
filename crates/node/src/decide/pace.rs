//! Waits and periods.

use std::time::Duration;

use model::ports::cluster::ApiError;

/// The number of immediate attempts of a call.
pub const TRIES: usize = 5;

const FIRST_STEP: Duration = Duration::from_millis(100);
const LONGEST_STEP: Duration = Duration::from_secs(7);

/// The back-off of a registration or lease creation after this number of failures: it doubles, up to
/// seven seconds.
pub fn backoff(failures: u32) -> Duration {
    let factor = 2_u32.saturating_pow(failures.saturating_sub(1));
    FIRST_STEP.saturating_mul(factor).min(LONGEST_STEP)
}

/// The wait after an error: the planned one, or the server's retry-after if that is longer.
pub fn not_before(planned: Duration, error: &ApiError) -> Duration {
    planned.max(error.retry_after().unwrap_or_default())
}

/// Whether the node starts and was not ready yet.
pub fn is_starting(since_start: Duration, was_ready: bool) -> bool {
    !was_ready && since_start < Duration::from_mins(2)
}

/// A period extended by up to 4 %, so that nodes do not call at the same time. `fraction` is a
/// number from zero to one.
pub fn jittered(period: Duration, fraction: f64) -> Duration {
    period.mul_f64(1.0 + 0.04 * fraction.clamp(0.0, 1.0))
}

/// The time until the next runtime check: short while the node starts, then longer.
pub fn next_check(since_start: Duration, was_ready: bool, is_ready: bool) -> Duration {
    match (is_ready, is_starting(since_start, was_ready)) {
        (false, true) if since_start < Duration::from_secs(10) => Duration::from_millis(100),
        (false, true) => Duration::from_secs(1),
        _ => Duration::from_secs(5),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: NODE-3
    #[test]
    fn waits_double_up_to_seven_seconds() {
        let waits: Vec<u128> = (1..=9).map(|n| backoff(n).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 7000, 7000]);
        assert_eq!(backoff(u32::MAX), LONGEST_STEP);
        assert_eq!(jittered(Duration::from_secs(10), 1.0), Duration::from_millis(10_400));
        assert_eq!(jittered(Duration::from_secs(10), 0.0), Duration::from_secs(10));
    }

    // behaviour: NODE-36
    #[test]
    fn retry_after_of_the_server_is_respected() {
        let seconds = Duration::from_secs;
        let busy = |retry_after| ApiError::Throttled { retry_after };
        let rows = [
            (busy(Some(seconds(20))), 20),
            (busy(Some(seconds(1))), 7),
            (busy(None), 7),
            (ApiError::NotFound, 7),
        ];
        for (error, expected) in rows {
            assert_eq!(not_before(seconds(7), &error), seconds(expected), "{error}");
        }
    }

    #[test]
    fn runtime_is_checked_often_while_the_node_starts() {
        let rows = [
            (0, false, false, 100),
            (9, false, false, 100),
            (11, false, false, 1000),
            (121, false, false, 5000),
            (1, true, false, 5000),
            (1, true, true, 5000),
        ];
        for (since, was_ready, is_ready, wait) in rows {
            let found = next_check(Duration::from_secs(since), was_ready, is_ready);
            assert_eq!(found.as_millis(), wait, "{since} {was_ready} {is_ready}");
        }
    }
}
