//! The time of day.

use std::fmt::Debug;

use jiff::Timestamp;

/// Tells the time of day, for timestamps. Waiting is the business of the async runtime's timers.
pub trait WallClock: Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;
}
