//! The order in which the agent looked and acted.
//!
//! "Is this observation newer than my last action" must have one answer even when both happen
//! within a tick of the clock, or while the clock jumps. So it is not asked of a clock: looking and
//! acting each take the next number of one sequence.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A moment in the agent's own order of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp(u64);

impl Stamp {
    /// Before everything.
    pub const START: Self = Self(0);
}

/// Hands out stamps, each later than all before it. Clones share the sequence.
#[derive(Debug, Clone, Default)]
pub struct Stamps(Arc<AtomicU64>);

impl Stamps {
    /// The next moment.
    pub fn next(&self) -> Stamp {
        Stamp(self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }
}
