//! Durations in the notation of Go: `1m30s`, `1.5h`, `100ms`, `-2s`, `0`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};
use thiserror::Error;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000 * MICROSECOND;
const SECOND: u64 = 1_000 * MILLISECOND;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// A signed number of nanoseconds, written as Go writes it.
///
/// Signed, because some fields give a meaning to negative values (a negative
/// `volumeStatsAggPeriod` turns volume statistics off).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

impl GoDuration {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// A whole number of nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// A whole number of milliseconds.
    pub const fn from_millis(millis: i32) -> Self {
        Self(millis as i64 * 1_000_000)
    }

    /// A whole number of seconds.
    pub const fn from_secs(secs: i32) -> Self {
        Self(secs as i64 * 1_000_000_000)
    }

    /// The number of nanoseconds.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Whether this is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Whether this is negative.
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// The time to wait: zero for a negative duration.
    pub fn to_std(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }
}

impl From<GoDuration> for Duration {
    fn from(duration: GoDuration) -> Self {
        duration.to_std()
    }
}

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is not a duration such as 1m30s, 20s or 100ms")]
pub struct ParseDurationError {
    text: String,
}

impl FromStr for GoDuration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map(Self).ok_or_else(|| ParseDurationError { text: text.to_owned() })
    }
}

fn parse(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanos: u64 = 0;
    while !rest.is_empty() {
        let (part, after) = leading_part(rest)?;
        // The sum may reach 2^63, which is a valid magnitude only for a negative duration.
        nanos = nanos.checked_add(part).filter(|sum| *sum <= 1 << 63)?;
        rest = after;
    }
    if negative { 0_i64.checked_sub_unsigned(nanos) } else { i64::try_from(nanos).ok() }
}

/// Reads one number with its unit; returns its nanoseconds and the rest of the text.
fn leading_part(text: &str) -> Option<(u64, &str)> {
    let (whole, after_whole) = leading_digits(text);
    let (fraction, after_number) = match after_whole.strip_prefix('.') {
        Some(after_point) => leading_digits(after_point),
        None => ("", after_whole),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let unit_end =
        after_number.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after_number.len());
    let (unit, after) = after_number.split_at(unit_end);
    let unit = unit_nanos(unit)?;
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let nanos = whole.checked_mul(unit)?.checked_add(fraction_nanos(fraction, unit))?;
    Some((nanos, after))
}

fn leading_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

fn unit_nanos(unit: &str) -> Option<u64> {
    match unit {
        "ns" => Some(1),
        // Two code points are in use for the micro sign.
        "us" | "\u{b5}s" | "\u{3bc}s" => Some(MICROSECOND),
        "ms" => Some(MILLISECOND),
        "s" => Some(SECOND),
        "m" => Some(MINUTE),
        "h" => Some(HOUR),
        _ => None,
    }
}

/// The fraction in nanoseconds; finer parts are dropped.
fn fraction_nanos(digits: &str, unit: u64) -> u64 {
    // 18 digits of an hour are finer than a nanosecond, and do not overflow.
    let kept = &digits[..digits.len().min(18)];
    let scale = 10_u128.pow(u32::try_from(kept.len()).unwrap_or(18));
    let value: u128 = kept.parse().unwrap_or(0);
    u64::try_from(value * u128::from(unit) / scale).unwrap_or(u64::MAX)
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        if nanos == 0 {
            return f.write_str("0s");
        }
        if nanos < SECOND {
            let (unit, name) = match nanos {
                0..MICROSECOND => (1, "ns"),
                MICROSECOND..MILLISECOND => (MICROSECOND, "\u{b5}s"),
                _ => (MILLISECOND, "ms"),
            };
            return write_decimal(f, nanos, unit, name);
        }
        if nanos >= HOUR {
            write!(f, "{}h", nanos / HOUR)?;
        }
        if nanos >= MINUTE {
            write!(f, "{}m", nanos / MINUTE % 60)?;
        }
        write_decimal(f, nanos % MINUTE, SECOND, "s")
    }
}

fn write_decimal(f: &mut fmt::Formatter<'_>, nanos: u64, unit: u64, name: &str) -> fmt::Result {
    write!(f, "{}", nanos / unit)?;
    let rest = nanos % unit;
    if rest > 0 {
        let width = unit.ilog10() as usize;
        let digits = format!("{rest:0width$}");
        write!(f, ".{}", digits.trim_end_matches('0'))?;
    }
    f.write_str(name)
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_parsed_and_formatted_as_in_go() {
        for (text, nanos, written) in [
            ("0", 0, "0s"),
            ("0s", 0, "0s"),
            ("-0s", 0, "0s"),
            ("20s", 20_000_000_000, "20s"),
            ("1m", 60_000_000_000, "1m0s"),
            ("1m30s", 90_000_000_000, "1m30s"),
            ("90s", 90_000_000_000, "1m30s"),
            ("4h", 14_400_000_000_000, "4h0m0s"),
            ("1.5h", 5_400_000_000_000, "1h30m0s"),
            (".5s", 500_000_000, "500ms"),
            ("1.s", 1_000_000_000, "1s"),
            ("100ms", 100_000_000, "100ms"),
            ("1500us", 1_500_000, "1.5ms"),
            ("15\u{b5}s", 15_000, "15\u{b5}s"),
            ("15\u{3bc}s", 15_000, "15\u{b5}s"),
            ("7ns", 7, "7ns"),
            ("-2s", -2_000_000_000, "-2s"),
            ("+2s", 2_000_000_000, "2s"),
            ("1s500ms", 1_500_000_000, "1.5s"),
            ("9223372036854775807ns", i64::MAX, "2562047h47m16.854775807s"),
            ("-9223372036854775808ns", i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            let duration: GoDuration = text.parse().unwrap();
            assert_eq!(duration.nanos(), nanos, "{text}");
            assert_eq!(duration.to_string(), written, "{text}");
        }
    }

    #[test]
    fn invalid_durations_are_refused() {
        for text in [
            "",
            "-",
            "+",
            "10",
            "s",
            ".s",
            "1x",
            "1 s",
            "1d",
            "1m 30s",
            "1e3s",
            "--1s",
            "9223372036854775808ns",
            "10000000000h",
        ] {
            assert!(text.parse::<GoDuration>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn negative_duration_is_zero_wait_time() {
        assert_eq!(GoDuration::from_secs(-1).to_std(), Duration::ZERO);
        assert_eq!(GoDuration::from_secs(2).to_std(), Duration::from_secs(2));
    }

    proptest! {
        #[test]
        fn formatted_duration_parses_to_the_same_value(nanos: i64) {
            let duration = GoDuration::from_nanos(nanos);
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }
    }
}
