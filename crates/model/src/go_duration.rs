//! Durations in the format of Go, for upstream's messages.

use std::time::Duration;

/// A duration in whole milliseconds: `1h2m3.004s`, `15ms`, `0s`.
pub fn milliseconds(duration: Duration) -> String {
    let (seconds, rest) = (duration.as_secs(), duration.subsec_millis());
    if seconds == 0 && rest > 0 {
        return format!("{rest}ms");
    }
    let hours = if seconds >= 3600 { format!("{}h", seconds / 3600) } else { String::new() };
    let minutes = if seconds >= 60 { format!("{}m", seconds / 60 % 60) } else { String::new() };
    let fraction = format!(".{rest:03}");
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    format!("{hours}{minutes}{}{fraction}s", seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_cut_to_milliseconds_and_written_as_in_go() {
        let rows = [
            (0, "0s"),
            (999_999, "0s"),
            (1_000_000, "1ms"),
            (999_999_999, "999ms"),
            (1_000_000_000, "1s"),
            (1_050_000_000, "1.05s"),
            (60_000_000_000, "1m0s"),
            (61_004_000_000, "1m1.004s"),
            (3_600_000_000_000, "1h0m0s"),
            (90_061_500_000_000, "25h1m1.5s"),
        ];
        for (nanoseconds, expected) in rows {
            assert_eq!(milliseconds(Duration::from_nanos(nanoseconds)), expected);
        }
    }
}
