//! When images go, as the operator wants it.

use std::time::Duration;

/// The policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// An image that was first seen less than this ago stays.
    pub minimum_age: Duration,
    /// An image that is unused for longer than this is removed even if the disk has room; zero disables
    /// this.
    pub maximum_age: Duration,
    /// The use of the disk, in per cent, from which on images go to make room.
    pub high_threshold: u32,
    /// The use of the disk, in per cent, at which enough have gone.
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

/// A policy that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A threshold is no percentage.
    #[error("{field} is {value}, must be from 0 to 100")]
    Range {
        /// Which.
        field: &'static str,
        /// What it is.
        value: u32,
    },
    /// The low threshold is above the high one.
    #[error("the low threshold {low} is above the high threshold {high}")]
    Order {
        /// The low one.
        low: u32,
        /// The high one.
        high: u32,
    },
}

impl Policy {
    /// Whether it makes sense. The configuration is held to more than this: there the low threshold
    /// must be below the high one.
    pub fn check(&self) -> Result<(), PolicyError> {
        let (high, low) = (self.high_threshold, self.low_threshold);
        for (field, value) in [("high threshold", high), ("low threshold", low)] {
            if value > 100 {
                return Err(PolicyError::Range { field, value });
            }
        }
        if low > high { Err(PolicyError::Order { low, high }) } else { Ok(()) }
    }

    /// Whether there is anything to do without being asked.
    pub fn is_periodic(&self) -> bool {
        self.high_threshold < 100 || !self.maximum_age.is_zero()
    }
}
