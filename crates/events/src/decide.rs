//! Decides which events are written, and how. Pure.

mod correlator;
#[cfg(test)]
mod correlator_tests;
mod latest;
mod outcome;

pub use correlator::Correlator;
use latest::Latest;
pub use outcome::{DropReason, Next, next};
