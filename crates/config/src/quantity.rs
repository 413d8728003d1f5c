//! Amounts in the notation of Kubernetes: `100Mi`, `1.5`, `250m`, `1e3`.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use thiserror::Error;

const NANO: i128 = 1_000_000_000;

/// An amount, kept as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantity {
    text: String,
    nanos: i128,
}

impl Quantity {
    /// Nothing.
    pub fn zero() -> Self {
        Self { text: "0".to_owned(), nanos: 0 }
    }

    /// A number of mebibytes.
    pub fn mebibytes(count: u32) -> Self {
        Self { text: format!("{count}Mi"), nanos: i128::from(count) * (1 << 20) * NANO }
    }

    /// The amount in billionths, rounded away from zero as upstream does.
    pub const fn nanos(&self) -> i128 {
        self.nanos
    }

    /// The amount in thousandths, rounded up: CPU shares are counted so.
    pub const fn millis(&self) -> i128 {
        div_ceil(self.nanos, 1_000_000)
    }

    /// The amount as a whole number, rounded up.
    pub const fn value(&self) -> i128 {
        div_ceil(self.nanos, NANO)
    }

    /// Whether this is nothing.
    pub const fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// Whether this is less than nothing.
    pub const fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// Whether this is a whole number.
    pub const fn is_whole(&self) -> bool {
        self.nanos % NANO == 0
    }

    /// The text as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

const fn div_ceil(value: i128, by: i128) -> i128 {
    value.div_euclid(by) + (value.rem_euclid(by) > 0) as i128
}

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is not a quantity such as 100Mi, 1.5 or 250m")]
pub struct ParseQuantityError {
    text: String,
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match parse(text) {
            Some(nanos) => Ok(Self { text: text.to_owned(), nanos }),
            None => Err(ParseQuantityError { text: text.to_owned() }),
        }
    }
}

fn parse(text: &str) -> Option<i128> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let number_end = rest.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(number_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let magnitude = magnitude(whole, fraction, Scale::of(suffix)?)?;
    Some(if negative { -magnitude } else { magnitude })
}

/// What a suffix multiplies by.
#[derive(Clone, Copy)]
enum Scale {
    PowerOfTwo(u32),
    PowerOfTen(i32),
}

impl Scale {
    fn of(suffix: &str) -> Option<Self> {
        Some(match suffix {
            "n" => Self::PowerOfTen(-9),
            "u" => Self::PowerOfTen(-6),
            "m" => Self::PowerOfTen(-3),
            "" => Self::PowerOfTen(0),
            "k" => Self::PowerOfTen(3),
            "M" => Self::PowerOfTen(6),
            "G" => Self::PowerOfTen(9),
            "T" => Self::PowerOfTen(12),
            "P" => Self::PowerOfTen(15),
            "E" => Self::PowerOfTen(18),
            "Ki" => Self::PowerOfTwo(10),
            "Mi" => Self::PowerOfTwo(20),
            "Gi" => Self::PowerOfTwo(30),
            "Ti" => Self::PowerOfTwo(40),
            "Pi" => Self::PowerOfTwo(50),
            "Ei" => Self::PowerOfTwo(60),
            exponent => {
                let digits = exponent.strip_prefix(['e', 'E'])?;
                Self::PowerOfTen(digits.parse().ok()?)
            }
        })
    }
}

/// The largest amount there is; larger ones become this, as upstream does.
const MAX: i128 = (i64::MAX as i128) * NANO;

fn magnitude(whole: &str, fraction: &str, scale: Scale) -> Option<i128> {
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    // More digits than this exceed every limit below, whatever the suffix.
    if digits.len() > 30 {
        return None;
    }
    let digits: i128 = digits.parse().ok()?;
    let places = i32::try_from(fraction.len()).ok()?;
    let (factor, exponent) = match scale {
        Scale::PowerOfTwo(power) => (1_i128 << power, 9 - places),
        Scale::PowerOfTen(power) => (1, power.checked_add(9)?.checked_sub(places)?),
    };
    let Some(scaled) = digits.checked_mul(factor) else {
        return Some(MAX);
    };
    if exponent >= 0 {
        let nanos = u32::try_from(exponent)
            .ok()
            .and_then(|exponent| 10_i128.checked_pow(exponent))
            .and_then(|power| scaled.checked_mul(power))
            .unwrap_or(MAX);
        Some(nanos.min(MAX))
    } else {
        let divisor = 10_i128.checked_pow(exponent.unsigned_abs());
        Some(divisor.map_or(1, |divisor| div_ceil(scaled, divisor)).min(MAX))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact_to_a_billionth() {
        for (text, nanos) in [
            ("0", 0),
            ("1", NANO),
            ("+1", NANO),
            ("-1", -NANO),
            ("1.5", 1_500_000_000),
            (".5", 500_000_000),
            ("5.", 5 * NANO),
            ("250m", 250_000_000),
            ("1u", 1_000),
            ("1n", 1),
            ("0.1n", 1),
            ("-0.1n", -1),
            ("1k", 1_000 * NANO),
            ("1Ki", 1_024 * NANO),
            ("1.5Ki", 1_536 * NANO),
            ("100Mi", 104_857_600 * NANO),
            ("1E", 1_000_000_000_000_000_000 * NANO),
            ("1e3", 1_000 * NANO),
            ("1E3", 1_000 * NANO),
            ("1e-3", 1_000_000),
            ("9Ei", MAX),
            ("1e30", MAX),
        ] {
            let quantity: Quantity = text.parse().unwrap();
            assert_eq!(quantity.nanos(), nanos, "{text}");
            assert_eq!(quantity.as_str(), text);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "-", ".", "1.2.3", "1K", "1ki", "Mi", "1 Mi", "1Mib", "1e", "1e1.5", "a"] {
            assert!(text.parse::<Quantity>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn rounding_is_up() {
        let quantity: Quantity = "1.0001".parse().unwrap();
        assert_eq!((quantity.value(), quantity.millis()), (2, 1001));
        assert!(!quantity.is_whole());
        let quantity: Quantity = "-1.5".parse().unwrap();
        assert_eq!(quantity.value(), -1);
        assert!(quantity.is_negative());
    }

    #[test]
    fn the_constructors_write_what_they_mean() {
        assert_eq!(Quantity::mebibytes(100), "100Mi".parse().unwrap());
        assert_eq!(Quantity::zero(), "0".parse().unwrap());
    }
}
