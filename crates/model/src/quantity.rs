//! Quantities of resources: `500m`, `1.5Gi`, `3e6`.
//!
//! The API stores the text of a quantity. Here it is parsed to an exact number of billionths, so that
//! quantities can be compared and added, and formatted in the canonical form of the API.

use std::fmt;
use std::ops::Add;
use std::str::FromStr;

/// Billionths in one.
const ONE: i128 = 1_000_000_000;
/// The limit of binary quantities.
const BINARY_MAX: i128 = i64::MAX as i128 * ONE;
/// Larger exponents make no difference: the number is at its limit, or rounds up to a billionth.
const EXPONENT_LIMIT: i32 = 60;

/// The notation of a quantity, which is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notation {
    /// `Ki`, `Mi`, …
    Binary,
    /// `m`, `k`, `M`, …
    Decimal,
    /// `e3`
    Exponent,
}

/// An amount of a resource. Compares by amount in any notation.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    billionths: i128,
    notation: Notation,
}

/// An invalid quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("quantities must be a decimal number with an optional suffix (like 500m, 1.5Gi, 2e3)")]
pub struct QuantityError;

const BINARY_SUFFIXES: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// Suffixes for every third power of ten from the billionth up.
const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self { billionths: 0, notation: Notation::Decimal };

    /// Parses a quantity of the API, ignoring surrounding blanks.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        text.trim().parse()
    }

    /// Whether it is less than zero.
    pub fn is_negative(&self) -> bool {
        self.billionths < 0
    }

    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.billionths == 0
    }

    /// Whether it is a whole number.
    pub fn is_whole(&self) -> bool {
        self.billionths % ONE == 0
    }

    /// Whether it is a multiple of a size.
    pub fn is_multiple_of(&self, unit: &Self) -> bool {
        unit.billionths > 0 && self.billionths % unit.billionths == 0
    }

    /// The amount as an integer, rounded up and saturating.
    pub fn value(&self) -> i64 {
        self.in_units_of(ONE)
    }

    /// The amount in thousandths, rounded up and saturating.
    pub fn milli_value(&self) -> i64 {
        self.in_units_of(ONE / 1000)
    }

    fn in_units_of(&self, unit: i128) -> i64 {
        let rest = i128::from(self.billionths.rem_euclid(unit) != 0);
        let units = self.billionths.div_euclid(unit) + rest;
        let limit = if units < 0 { i64::MIN } else { i64::MAX };
        i64::try_from(units).unwrap_or(limit)
    }

    /// The same amount in the notation `Ki`, `Mi`, …, if possible.
    #[must_use]
    pub fn in_binary(self) -> Self {
        Self { notation: Notation::Binary, ..self }
    }

    /// The amount in thousandths, rounded away from zero: the finest resolution of the API for a
    /// resource.
    #[must_use]
    pub fn rounded_to_thousandths(&self) -> Self {
        const THOUSANDTH: i128 = ONE / 1000;
        let rest = self.billionths % THOUSANDTH;
        let step = if rest == 0 { 0 } else { rest.signum() * THOUSANDTH };
        Self { billionths: self.billionths - rest + step, notation: self.notation }
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    /// Parses a quantity. Smaller fractions are rounded up to a billionth, away from zero; larger
    /// amounts are set to the limit.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let number_end =
            unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return Err(QuantityError);
        }
        let (notation, scale) = interpret(suffix)?;
        let magnitude = magnitude(whole, fraction, scale);
        let magnitude =
            if notation == Notation::Binary { magnitude.min(BINARY_MAX) } else { magnitude };
        // Below one there is no binary suffix.
        let notation = if notation == Notation::Binary && (1..ONE).contains(&magnitude) {
            Notation::Decimal
        } else {
            notation
        };
        let billionths = if negative { -magnitude } else { magnitude };
        Ok(Self { billionths, notation })
    }
}

/// Notation and multiplier of a suffix.
fn interpret(suffix: &str) -> Result<(Notation, Scale), QuantityError> {
    if let Some(power) = BINARY_SUFFIXES.iter().position(|s| *s == suffix) {
        return Ok((Notation::Binary, Scale::Two(10 * (power + 1))));
    }
    if let Some(step) = (-3..).zip(DECIMAL_SUFFIXES).find(|(_, s)| *s == suffix) {
        return Ok((Notation::Decimal, Scale::Ten(step.0 * 3)));
    }
    let exponent = suffix.strip_prefix(['e', 'E']).ok_or(QuantityError)?;
    let exponent: i32 = exponent.parse().map_err(|_| QuantityError)?;
    Ok((Notation::Exponent, Scale::Ten(exponent.clamp(-EXPONENT_LIMIT, EXPONENT_LIMIT))))
}

#[derive(Debug, Clone, Copy)]
enum Scale {
    /// A power of two.
    Two(usize),
    /// A power of ten.
    Ten(i32),
}

/// Billionths in `whole.fraction` times the scale, rounded up and saturating.
fn magnitude(whole: &str, fraction: &str, scale: Scale) -> i128 {
    let (exponent, factor) = match scale {
        Scale::Ten(exponent) => (9 + exponent, 1),
        Scale::Two(power) => (9, 1_i128 << power),
    };
    let mut total: i128 = 0;
    let mut inexact = false;
    let places = (0_i32..).zip(fraction.bytes()).map(|(at, digit)| (-1 - at, digit));
    let places = places.chain((0_i32..).zip(whole.bytes().rev()));
    for (place, digit) in places {
        let digit = i128::from(digit - b'0') * factor;
        if digit == 0 {
            continue;
        }
        let power = place.saturating_add(exponent);
        if let Ok(power) = u32::try_from(power) {
            let part = 10_i128.checked_pow(power).and_then(|unit| unit.checked_mul(digit));
            total = total.saturating_add(part.unwrap_or(i128::MAX));
        } else {
            // Finer than a billionth, except with a binary factor.
            let unit = 10_i128.checked_pow(power.unsigned_abs());
            let (part, rest) = unit.map_or((0, digit), |unit| (digit / unit, digit % unit));
            total = total.saturating_add(part);
            inexact |= rest != 0;
        }
    }
    if inexact { total.saturating_add(1) } else { total }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = self.billionths;
        if amount == 0 {
            return f.write_str("0");
        }
        if self.notation == Notation::Binary && self.is_whole() && amount.abs() >= 1024 * ONE {
            let mut number = amount / ONE;
            let mut power = 0;
            while number % 1024 == 0 && power < BINARY_SUFFIXES.len() {
                number /= 1024;
                power += 1;
            }
            let suffix = if power == 0 { "" } else { BINARY_SUFFIXES[power - 1] };
            return write!(f, "{number}{suffix}");
        }
        let mut number = amount;
        let mut step = 0;
        while number % 1000 == 0 && step + 1 < DECIMAL_SUFFIXES.len() {
            number /= 1000;
            step += 1;
        }
        match self.notation {
            Notation::Exponent if step == 3 => write!(f, "{number}"),
            Notation::Exponent => write!(f, "{number}e{}", 3 * step.cast_signed() - 9),
            _ => write!(f, "{number}{}", DECIMAL_SUFFIXES[step]),
        }
    }
}

impl Add for Quantity {
    type Output = Self;

    /// The sum, in the notation of the first amount that is not zero.
    fn add(self, other: Self) -> Self {
        let notation = if self.is_zero() { other.notation } else { self.notation };
        Self { billionths: self.billionths.saturating_add(other.billionths), notation }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.billionths == other.billionths
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.billionths.cmp(&other.billionths)
    }
}
