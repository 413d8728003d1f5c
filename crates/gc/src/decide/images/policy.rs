//! The image garbage collection policy.

use std::time::Duration;

/// The policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// An image that was first detected less than this ago stays.
    pub minimum_age: Duration,
    /// An image that is unused for longer than this is removed even if the disk has room; zero disables
    /// this.
    pub maximum_age: Duration,
    /// The disk usage, in percent, from which images are removed.
    pub high_threshold: u32,
    /// The disk usage, in percent, at which removals end.
    pub low_threshold: u32,
    /// Whether images of one id that were pulled for different runtime handlers are different images.
    pub per_handler: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            minimum_age: Duration::from_mins(2),
            maximum_age: Duration::ZERO,
            high_threshold: 85,
            low_threshold: 80,
            per_handler: false,
        }
    }
}

/// An invalid policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A threshold that is not a percentage.
    #[error("{field} is {value}, must be from 0 to 100")]
    Range {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u32,
    },
    /// The low threshold is above the high one.
    #[error("the low threshold {low} is above the high threshold {high}")]
    Order {
        /// The low threshold.
        low: u32,
        /// The high threshold.
        high: u32,
    },
}

impl Policy {
    /// Checks the policy. The configuration has a stricter check: there the low threshold must be below the
    /// high one.
    pub fn check(&self) -> Result<(), PolicyError> {
        let (high, low) = (self.high_threshold, self.low_threshold);
        for (field, value) in [("high threshold", high), ("low threshold", low)] {
            if value > 100 {
                return Err(PolicyError::Range { field, value });
            }
        }
        if low > high { Err(PolicyError::Order { low, high }) } else { Ok(()) }
    }

    /// Whether periodic passes can remove anything.
    pub fn is_periodic(&self) -> bool {
        self.high_threshold < 100 || !self.maximum_age.is_zero()
    }
}
