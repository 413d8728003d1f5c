//! Numbers: units, and several measurements of one thing.

/// A count or a number of bytes.
#[expect(clippy::cast_precision_loss, reason = "counts and bytes are far below 2^52")]
pub fn number(count: u64) -> f64 {
    count as f64
}

/// Bytes as mebibytes.
pub fn mebibytes(bytes: u64) -> f64 {
    number(bytes) / (1024.0 * 1024.0)
}

/// Median, minimum and maximum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The median; of an even number, the mean of the two in the middle.
    pub median: f64,
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
}

impl Spread {
    /// The spread of measurements; `None` without any.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let upper = values[middle];
        let median = if values.len().is_multiple_of(2) {
            f64::midpoint(values[middle - 1], upper)
        } else {
            upper
        };
        Some(Self { median, min, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_has_median_minimum_and_maximum() {
        let of =
            |values: &[f64]| Spread::of(values.iter().copied()).map(|s| (s.min, s.median, s.max));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[4.0]), Some((4.0, 4.0, 4.0)));
        assert_eq!(of(&[9.0, 1.0, 2.0]), Some((1.0, 2.0, 9.0)));
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]), Some((1.0, 2.5, 4.0)));
        assert_eq!(of(&[f64::INFINITY, 3.0, f64::NAN]), Some((3.0, 3.0, 3.0)));
    }
}
