//! The wall clock.

use std::fmt::Debug;

use jiff::Timestamp;

/// Returns the time of day, for timestamps. Timers of the async runtime are for waiting.
pub trait WallClock: Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;
}
