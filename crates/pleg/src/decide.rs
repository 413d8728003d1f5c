//! What changed between two observations. Pure.

mod diff;

pub use diff::{ObjectState, PodRecord, diff};
