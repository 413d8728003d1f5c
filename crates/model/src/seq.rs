//! The order of observations and actions of the agent.
//!
//! Whether an observation is newer than the last action must be decidable even if both happen within
//! a tick of the clock, or while the clock jumps. So no clock is used: each observation and each
//! action takes the next number of one sequence.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A position in the agent's own order of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Seq(u64);

impl Seq {
    /// Before every other position.
    pub const START: Self = Self(0);
}

/// Hands out increasing positions. Clones share the sequence.
#[derive(Debug, Clone, Default)]
pub struct SeqCounter(Arc<AtomicU64>);

impl SeqCounter {
    /// The next position.
    pub fn next(&self) -> Seq {
        Seq(self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }
}
